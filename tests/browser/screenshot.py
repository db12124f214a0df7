"""Takes the README's picture of a report: ``python -m tests.browser.screenshot docs/images/report.png``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.browser.conftest import find_browser
from tests.report_tables import lived_in, report_of


def take(target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        table = lived_in(Path(folder, "table"))
        report = report_of(table)
        page_file = report.write(Path(folder, "report.html"))
        # The table's own place is of no interest to anybody.
        text = page_file.read_text(encoding="utf-8").replace(table.location, "s3://lakehouse/db/events")
        page_file.write_text(text, encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 1120}, device_scale_factor=1.5)
        page.goto(page_file.as_uri())
        canvas = page.locator("canvas[data-spec='1']")
        pitch = float(canvas.get_attribute("data-pitch") or "")
        canvas.hover(position={"x": 61 + 30.5 * pitch, "y": 1.5 * pitch})
        target.parent.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=target)
        browser.close()


if __name__ == "__main__":
    take(Path(sys.argv[1]))
