"""lakeshift: lakehouse tables on PySpark that keep evolving."""

import logging
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from lakeshift.lake import Lake, connect

__all__ = ["Lake", "__version__", "connect"]

logging.getLogger("lakeshift").addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    # Imported when first used: executors load this package for its kernels alone.
    if name in ("Lake", "connect"):
        from lakeshift import lake

        return getattr(lake, name)
    raise AttributeError(f"module 'lakeshift' has no attribute {name!r}")
