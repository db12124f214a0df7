"""The page as text: nothing in it can run but its own script, it is bounded, and it says nothing secret."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from lakeshift.errors import ConfigError
from lakeshift.report.page import PageLimits, embedded_json, page_content, render_page
from lakeshift.report.redaction import HIDDEN, shown_properties
from lakeshift.report.write import Report, check_path
from tests.handmade import HandmadeTable
from tests.report_tables import HOSTILE, hostile, report_of

REGION = Schema(NestedField(1, "id", LongType()), NestedField(3, "region", StringType()))
BY_REGION = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "region"), spec_id=0)


class Elements(HTMLParser):
    """The elements of a page as a parser of HTML finds them, with the text of scripts, styles and the title."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {"script": [], "style": [], "title": []}
        self.within = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self.within = tag
        if tag in self.texts:
            self.texts[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        self.within = ""

    def handle_data(self, data: str) -> None:
        if self.within in self.texts:
            self.texts[self.within][-1] += data

    def attributes(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for found, attributes in self.found if found == tag]


def embedded(page: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Elements(page).texts["script"][0])
    return found


def test_hostile_values_are_data_and_add_no_element(tmp_path: Path, lived_in_table: HandmadeTable) -> None:
    page = report_of(hostile(tmp_path), f"db.{HOSTILE}").page()
    harmless = report_of(lived_in_table).page()
    assert [tag for tag, _ in Elements(page).found] == [tag for tag, _ in Elements(harmless).found]
    assert not any(name.startswith("on") for _, attributes in Elements(page).found for name in attributes)
    assert HOSTILE not in page
    said = embedded(page)
    assert said["table"]["name"] == f"db.{HOSTILE}"
    [layout] = said["layout"]
    assert set(layout["fields"][0]["texts"]) >= {HOSTILE, None, "null", "{{script}}", "\u2028]]>\u2029<!--"}
    assert Elements(page).texts["title"] == [f"db.{HOSTILE} - lakeshift report"]


def test_the_policy_admits_this_script_and_style_and_no_network(lived_in_table: HandmadeTable) -> None:
    elements = Elements(report_of(lived_in_table).page())
    [policy] = [m["content"] for m in elements.attributes("meta") if m.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert "unsafe" not in policy
    for kind, text in (("script-src", elements.texts["script"][1]), ("style-src", elements.texts["style"][0])):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[kind] == f"'sha256-{digest}'"
    addresses = [
        value for _, attributes in elements.found for name, value in attributes.items() if name in ("src", "href")
    ]
    assert addresses == ["data:,", "#next"]
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", elements.texts["script"][1])


def test_embedded_json_holds_no_character_that_html_or_old_scripts_would_read() -> None:
    text = {"</script>": "<!-- & \u2028\u2029 \ud800 \u00e9"}
    embedded_text = embedded_json(text)
    assert json.loads(embedded_text) == text
    assert embedded_text.isascii()
    assert not set(embedded_text) & set("<>&")


def test_a_name_with_half_a_character_can_still_be_written(tmp_path: Path) -> None:
    table = HandmadeTable(tmp_path / "table", REGION, BY_REGION)
    written = report_of(table, "db.\ud800x").write(tmp_path / "report.html")
    assert embedded(written.read_text(encoding="utf-8"))["table"]["name"] == "db.\ud800x"


def test_100_000_partitions_are_drawn_one_by_one_within_the_bound(table_of_many_partitions: HandmadeTable) -> None:
    report = report_of(table_of_many_partitions)
    page = report.page()
    assert len(page) < 4_500_000
    [layout] = embedded(page)["layout"]
    assert (layout["partitions"], layout["cells"], layout["span"]) == (100_000, 100_000, 1)
    assert sum(layout["bytes"]) == report.facts.totals.bytes
    assert sum(count for _, count in layout["runs"]) == 100_000


def test_neighbours_share_a_cell_where_partitions_would_not_fit(table_of_many_partitions: HandmadeTable) -> None:
    report = report_of(table_of_many_partitions)
    limits = PageLimits(layout_bytes=200_000)
    content = page_content(report.facts, report.steps, limits)
    [layout] = content["layout"]
    assert len(embedded_json(content["layout"])) <= limits.layout_bytes
    assert layout["cells"] < 20_000
    # Nothing is lost by it: sums stay, runs stay, and each cell says from where to where it goes.
    assert sum(layout["span"]) == layout["partitions"] == 100_000
    assert sum(layout["bytes"]) == report.facts.totals.bytes
    assert sum(count for _, count in layout["runs"]) == layout["cells"]
    days, buckets = layout["fields"]
    assert days["texts"][days["first"][0]] == "2023-01-01"
    assert buckets["texts"][buckets["last"][-1]] == "99"


def test_a_page_of_endless_names_and_lists_is_bounded(tmp_path: Path) -> None:
    long = "\u00fc" * 1_000  # six characters of JSON each
    schema = Schema(*(NestedField(n, f"c{n}{long}", StringType(), doc=long) for n in range(1, 30)))
    spec = PartitionSpec(
        *(PartitionField(n, 1000 + n, IdentityTransform(), f"f{n}{long}") for n in range(1, 5)), spec_id=0
    )
    table = HandmadeTable(tmp_path, schema, spec)
    table.commit(*(table.data_file(0, *(f"{n}-{k}-{long}" for k in range(4))) for n in range(100)))
    [snapshot] = table.metadata.snapshots
    crowded = snapshot.model_copy(
        update={"summary": Summary(Operation.APPEND, **{f"key-{n}-{long}": long for n in range(20)})}
    )
    properties = {f"property-{n}-{long}": long for n in range(300)}
    table.metadata = table.metadata.model_copy(update={"properties": properties, "snapshots": [crowded] * 300})
    report = report_of(table)
    page = report.page()
    assert len(page.encode()) < 8_000_000
    said = embedded(page)
    assert (len(said["snapshots"]), said["snapshotsLeftOut"]) == (200, 100)
    assert (len(said["properties"]), said["propertiesLeftOut"]) == (100, 200)
    assert said["layout"][0]["partitions"] == 100
    tight = page_content(report.facts, report.steps, PageLimits(layout_bytes=1_000))
    assert (tight["layout"][0]["cells"], tight["layout"][0]["files"]) == (1, 100)


def test_ids_keep_all_their_digits(tmp_path: Path) -> None:
    table = HandmadeTable(tmp_path, REGION, BY_REGION)
    table.commit(table.data_file(0, "eu"))
    [snapshot] = table.metadata.snapshots
    large = snapshot.model_copy(update={"snapshot_id": 2**63 - 25})
    table.metadata = table.metadata.model_copy(
        update={"snapshots": [large], "current_snapshot_id": 2**63 - 25, "refs": {}}
    )
    assert embedded(report_of(table).page())["snapshots"][0]["id"] == "9223372036854775783"


def test_what_looks_like_a_credential_is_not_shown() -> None:
    secret = {
        "s3.secret-access-key": "abc",
        "s3.access-key-id": "abc",
        "gcs.oauth2.token": "abc",
        "adls.sas-token": "abc",
        "adls.account-key": "abc",
        "jdbc.password": "abc",
        "auth": "abc",
        "note": "AKIAIOSFODNN7EXAMPLE",
        "link": "https://host/x?sig=abc",
    }
    assert set(shown_properties(secret).values()) == {HIDDEN}
    plain = {
        "write.parquet.compression-codec": "zstd",
        "author": "ann",
        "primary-key": "id",
        "commit.retry.num-retries": "4",
        "encoding.keys": "none",
        "home": "https://host/path@1",
    }
    assert shown_properties(plain) == plain
    assert shown_properties({"uri": "postgresql://ann:pw@host/db"}) == {"uri": "postgresql://host/db"}


def test_no_secret_of_properties_or_summaries_is_on_the_page(tmp_path: Path, lived_in_table: HandmadeTable) -> None:
    for report, secret in ((report_of(lived_in_table), "ya29"), (report_of(hostile(tmp_path)), "hunter2")):
        assert secret not in report.page()
        assert secret not in json.dumps(report.to_dict())


@pytest.mark.parametrize("where", [".", "nowhere/report.html"])
def test_a_path_that_cannot_be_a_file_is_said_before_anything_is_read(tmp_path: Path, where: str) -> None:
    with pytest.raises(ConfigError, match=r"report\.html"):
        check_path(tmp_path / where)


def test_a_report_replaces_the_one_before_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    table = HandmadeTable(tmp_path / "table", REGION, BY_REGION)
    folder = tmp_path / "out"
    folder.mkdir()
    target = folder / "report.html"
    target.write_text("old")
    report: Report = report_of(table)
    assert report.write(target) == target
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [path.name for path in folder.iterdir()] == ["report.html"]
    assert render_page(report.facts, ()) != ""
