"""Batches read ahead in a thread of their own, so that decoding and encoding go on at the same time."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")


class _End:
    """Marks the end of the items, and carries what went wrong if anything did."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


@contextmanager
def prefetched(items: Iterator[Item], ahead: int = 2) -> Iterator[Iterator[Item]]:
    """The same items, of which a thread keeps some ready; leaving the block ends the thread."""
    waiting: queue.Queue[Item | _End] = queue.Queue(ahead)
    over = threading.Event()

    def put(item: Item | _End) -> bool:
        while not over.is_set():
            try:
                waiting.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def read() -> None:
        try:
            for item in items:
                if not put(item):
                    return
            put(_End())
        except BaseException as error:
            put(_End(error))

    def take() -> Iterator[Item]:
        while True:
            item = waiting.get()
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            yield item

    reader = threading.Thread(target=read, name="lakeshift-prefetch", daemon=True)
    reader.start()
    try:
        yield take()
    finally:
        over.set()
        reader.join()
