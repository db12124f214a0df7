"""The report's page as people use it: pointed at, switched, searched, by mouse and by keys, in light and dark.

Each page that is opened must also complain of nothing and ask the network for nothing: `open_report` checks that.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from lakeshift.report.write import Report
from tests.handmade import HandmadeTable
from tests.report_tables import BY_MONTH, EVENTS, HOSTILE, hostile, report_of

Open = Callable[..., Page]

# First of all fixtures: where there is no browser, no table need be made.
pytestmark = pytest.mark.usefixtures("browser")


@pytest.fixture(scope="module")
def report(lived_in_table: HandmadeTable) -> Report:
    return report_of(lived_in_table)


@pytest.fixture(scope="module")
def lived_in(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return report.write(tmp_path_factory.mktemp("page") / "report.html")


def picture(page: Page) -> str:
    """All that the maps' canvases show."""
    found: str = page.evaluate("[...document.querySelectorAll('canvas')].map((c) => c.toDataURL()).join()")
    return found


def tooltip(page: Page) -> dict[str, str]:
    """What the tooltip says, by name; its title under an empty one."""
    box = page.locator("#tooltip")
    names, numbers = box.locator("dt").all_inner_texts(), box.locator("dd").all_inner_texts()
    return {"": box.locator("strong").inner_text(), **dict(zip(names, numbers, strict=True))}


def cells(box: Locator) -> list[list[str]]:
    """The body of the table in an element, row by row."""
    found: list[list[str]] = box.evaluate(
        "(box) => [...box.querySelectorAll('tbody tr')].map((row) => [...row.cells].map((cell) => cell.innerText))"
    )
    return found


def number(text: str) -> int:
    return int(text.replace(",", ""))


def test_numbers_on_the_page_equal_the_facts(lived_in: Path, report: Report, open_report: Open) -> None:
    page, facts = open_report(lived_in), report.facts
    figures = {
        name: int(page.locator(f"[data-figure='{name}']").get_attribute("data-number") or "")
        for name in page.locator("#figures dt").all_inner_texts()
    }
    assert figures == {
        "Data files": facts.totals.data_files,
        "Size": facts.totals.bytes,
        "Rows": facts.totals.rows,
        "Partitions": facts.totals.partitions,
        "Specs in use": 3,
        "Delete files": facts.totals.delete_files,
        "Snapshots": len(facts.snapshots),
    }
    specs = [[row[0], *map(number, (row[2], row[3], row[6], row[7], row[8]))] for row in cells(page.locator("#specs"))]
    assert specs == [
        [str(s.spec_id), s.partitions, s.data_files, s.rows, s.small_files, s.files_with_deletes] for s in facts.specs
    ]
    deletes = [[row[0], *map(number, [row[1], *row[3:]])] for row in cells(page.locator("#deletes"))]
    assert deletes == [
        [c.kind, c.files, c.entries, c.data_files, c.data_rows, c.opened, c.unused_files] for c in facts.deletes
    ]
    snapshots = cells(page.locator("#snapshots table").first)
    assert [row[1] for row in snapshots[:3]] == ["delete", "replace", "append"]
    assert snapshots[0][2].startswith("+143 delete files")
    assert number(snapshots[0][3]) == facts.totals.data_files
    page.locator("#sizes summary").click()
    assert sum(number(row[2]) for row in cells(page.locator("#sizes table"))) == facts.totals.data_files
    assert page.locator("#migration").inner_text().startswith("49.4 % of the bytes")
    assert page.locator("#steps code").all_inner_texts() == [s.command for s in report.steps if s.command]


def test_the_table_of_partitions_has_each_of_them_once(lived_in: Path, report: Report, open_report: Open) -> None:
    page = open_report(lived_in)
    page.locator("#partition-table summary").click()
    found: list[tuple[str, int, int, int]] = []
    while True:
        rows = cells(page.locator("#partition-table"))
        found += [(row[0].replace(" / ", "/"), number(row[1]), number(row[2]), number(row[4])) for row in rows]
        following = page.get_by_role("button", name="Next")
        if following.is_disabled():
            break
        following.click()
    expected = [
        ("/".join(f"{k}={v}" for k, v in r["partition"].items()), r["spec_id"], r["files"], r["rows"])
        for r in report.to_dict()["partitions"]
    ]
    assert sorted(found) == sorted(expected)
    files = [row[2] for row in found]
    assert files == sorted(files, reverse=True)


def test_pointing_at_a_cell_shows_its_partition(lived_in: Path, report: Report, open_report: Open) -> None:
    page = open_report(lived_in)
    month = page.locator("canvas[data-spec='0']")
    pitch = float(month.get_attribute("data-pitch") or "")
    records = [r for r in report.to_dict()["partitions"] if r["spec_id"] == 0]
    for place, record in enumerate(records):
        month.hover(position={"x": (place + 0.4) * pitch, "y": pitch / 2})
        said = tooltip(page)
        assert said[""] == f"ts_month={record['partition']['ts_month']}"
        assert number(said["Data files"]) == record["files"]
        assert number(said["Rows"]) == record["rows"]
    month.hover(position={"x": 30 * pitch, "y": pitch / 2})
    assert page.locator("#tooltip").is_hidden()


def test_arrow_keys_go_from_cell_to_cell_and_are_told(lived_in: Path, report: Report, open_report: Open) -> None:
    page = open_report(lived_in)
    page.locator("canvas[data-spec='2']").focus()
    records = [r for r in report.to_dict()["partitions"] if r["spec_id"] == 2]
    page.keyboard.press("Home")
    assert tooltip(page)[""] == "ts_day=2025-12-01 / region=apac"
    page.keyboard.press("ArrowRight")
    assert tooltip(page)[""] == "ts_day=2025-12-01 / region=eu"
    page.keyboard.press("ArrowDown")
    assert tooltip(page)[""] == "ts_day=2025-12-01 / region=us"  # latam has no data yet on that day
    page.keyboard.press("End")
    assert tooltip(page)[""] == "ts_day=2026-02-28 / region=us"
    last = records[-1]
    live = page.locator("#map-live").inner_text()
    assert live.startswith(f"ts_day=2026-02-28/region=us: Data files {last['files']}, ")
    page.keyboard.press("Escape")
    assert page.locator("#tooltip").is_hidden()


def test_switching_colours_changes_the_picture_and_the_legend_counts_all(
    lived_in: Path, report: Report, open_report: Open
) -> None:
    page = open_report(lived_in)
    pictures, legends = {}, {}
    for label in ("Files", "Bytes", "Deletes per file", "Rows deleted"):
        page.get_by_role("radio", name=label).click()
        pictures[label] = picture(page)
        legends[label] = page.locator("#legend").inner_text()
        counted = re.findall(r"([\d,]+) partitions?", legends[label])
        assert sum(map(number, counted)) == report.facts.totals.partitions
    assert len(set(pictures.values())) == 4
    records = report.to_dict()["partitions"]
    for label, count in (("Deletes per file", "deletes_to_apply"), ("Rows deleted", "deleted_rows")):
        assert legends[label].split("\n")[:2] == ["none", f"{sum(r[count] == 0 for r in records)} partitions"]
    page.get_by_role("radio", name="Rows deleted").press("ArrowRight")  # and round to the first
    assert picture(page) == pictures["Files"]


def test_finding_a_value_leaves_the_others_faint(lived_in: Path, open_report: Open) -> None:
    page = open_report(lived_in)
    before = picture(page)
    page.locator("#find").fill("latam")
    expect(page.locator("#found")).to_have_text("60 partitions found")
    assert picture(page) != before
    page.locator("#find").fill("")
    expect(page.locator("#found")).to_have_text("")
    assert picture(page) == before


def test_light_and_dark_follow_the_system_or_the_switch(lived_in: Path, open_report: Open) -> None:
    def background(page: Page) -> str:
        found: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return found

    light, dark = open_report(lived_in, "light"), open_report(lived_in, "dark")
    assert background(light) != background(dark)
    assert picture(light) != picture(dark)
    dark_picture, dark_background = picture(dark), background(dark)
    light.get_by_role("radio", name="Dark").click()
    assert (background(light), picture(light)) == (dark_background, dark_picture)
    light.get_by_role("radio", name="Auto").click()
    light.emulate_media(color_scheme="dark")
    assert background(light) == dark_background


def test_everything_that_can_be_used_has_a_name_and_can_be_reached_by_keys(lived_in: Path, open_report: Open) -> None:
    page = open_report(lived_in)
    nameless = page.evaluate(
        """[...document.querySelectorAll('button, input, canvas, svg[role=img], [role=radiogroup], [role=region]')]
           .filter((e) => !(e.getAttribute('aria-label') || e.innerText || e.labels?.length)).length"""
    )
    assert nameless == 0
    reached = set()
    for _ in range(30):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    assert {"find", "CANVAS", "BUTTON", "SUMMARY"} <= reached


def test_hostile_values_are_shown_and_never_run(tmp_path: Path, open_report: Open) -> None:
    report = report_of(hostile(tmp_path / "table"), f"db.{HOSTILE}")
    page = open_report(report.write(tmp_path / "report.html"))
    page.locator("canvas").focus()
    titles = set()
    for _ in range(6):
        page.keyboard.press("ArrowRight")
        titles.add(tooltip(page)[""])
    assert f"field{HOSTILE}={HOSTILE}" in titles
    for details in page.locator("details").all():
        details.locator("summary").click()
    page.wait_for_selector("#partition-table td")
    text = page.locator("body").inner_text()
    assert text.count(HOSTILE) > 10
    assert "spark.password=(not shown)" in text
    assert page.evaluate("window.hostile") is None
    assert page.evaluate("document.querySelectorAll('main img, main script, main [onerror]').length") == 0
    assert page.locator("#partition-table .null").count() == 1  # null, and not the text of that name


def test_the_policy_stops_a_script_that_got_in_all_the_same(lived_in: Path, browser: Browser, tmp_path: Path) -> None:
    page = browser.new_page()
    changed = tmp_path / "changed.html"
    injected = "<script>window.hostile = 1</script><img src=x onerror='window.hostile = 1'></body>"
    changed.write_text(lived_in.read_text(encoding="utf-8").replace("</body>", injected), encoding="utf-8")
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(changed.as_uri())
    assert page.locator("#table-name").inner_text() == "db.events"
    assert page.evaluate("window.hostile") is None
    assert any("Content Security Policy" in text for text in complaints)
    page.close()


def test_100_000_partitions_stay_usable(
    table_of_many_partitions: HandmadeTable, tmp_path: Path, open_report: Open
) -> None:
    report = report_of(table_of_many_partitions)
    path = report.write(tmp_path / "report.html")
    page = open_report(path)
    page.locator("#made").wait_for()
    # One picture and a page of the table, whatever the number of partitions.
    assert page.evaluate("document.querySelectorAll('*').length") < 3000
    drawn = "document.querySelector('canvas').toDataURL()"
    by_files = page.evaluate(drawn)
    page.locator("[data-key=bytes]").click()
    page.wait_for_function(f"before => {drawn} !== before", arg=by_files)
    canvas = page.locator("canvas")
    canvas.focus()
    page.keyboard.press("End")
    assert tooltip(page)[""] == "ts_day=2025-09-26 / id_bucket=99"
    page.locator("#find").fill("ts_day=2024-02-29")
    expect(page.locator("#found")).to_have_text("100 partitions found")


def test_a_table_without_data_says_so(tmp_path: Path, open_report: Open) -> None:
    empty = HandmadeTable(tmp_path / "table", EVENTS, BY_MONTH)
    page = open_report(report_of(empty).write(tmp_path / "report.html"))
    text = page.locator("main").inner_text()
    for said in (
        "no partitions",
        "The table has no data yet",
        "There are no snapshots yet",
        "There are no delete files",
    ):
        assert said in text
    assert "null" not in text
    assert "undefined" not in text


def test_a_narrow_window_does_not_scroll_sideways(lived_in: Path, open_report: Open) -> None:
    page = open_report(lived_in, width=390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
