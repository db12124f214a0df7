"""One Chromium for all tests of the browser: Debian's own, or another one that is installed; none is downloaded."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_browser() -> str | None:
    """The program of a browser of Chromium's family, if there is one."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = find_browser()
    if program is None:
        pytest.skip(f"no browser: none of {', '.join(_NAMES)} is on PATH; on Debian: apt-get install chromium")
    with sync_playwright() as playwright:
        # Chromium refuses its sandbox to root, which is who tests run as in containers.
        launched = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield launched
        launched.close()


@dataclass
class OpenPage:
    """A page of a report, and all that it complained about or asked the network for."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture
def open_report(browser: Browser) -> Iterator[object]:
    """Open a report's file; after the test, it must have complained of nothing and asked for nothing but itself."""
    opened: list[tuple[Path, OpenPage]] = []

    def open_path(path: Path, scheme: str = "light", width: int = 1280) -> Page:
        page = browser.new_page(
            viewport={"width": width, "height": 900}, color_scheme="dark" if scheme == "dark" else "light"
        )
        found = OpenPage(page)
        page.on("console", lambda message: found.complaints.append(message.text))
        page.on("pageerror", lambda error: found.complaints.append(str(error)))
        page.on("request", lambda request: found.requests.append(request.url))
        page.on("dialog", lambda dialog: (found.complaints.append(f"dialog {dialog.message}"), dialog.dismiss()))
        opened.append((path, found))
        page.goto(path.as_uri())
        return page

    yield open_path
    for path, found in opened:
        assert found.complaints == []
        assert [url for url in found.requests if not url.startswith("data:")] == [path.as_uri()]
        found.page.close()
