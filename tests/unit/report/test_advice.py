"""What a report advises: the planner's own numbers, and commands that a shell reads as they are meant."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from lakeshift.iceberg.rewrite.options import RewriteOptions
from lakeshift.iceberg.rewrite.planner import RewriteDataFilesPlanner
from lakeshift.report.advice import Advisor
from lakeshift.report.facts import gather_facts
from tests.handmade import HandmadeTable
from tests.report_tables import report_of

REGION = Schema(NestedField(1, "id", LongType()), NestedField(3, "region", StringType()))
BY_REGION = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "region"), spec_id=0)
GOOD_SIZE = 512 * 1024 * 1024


@pytest.fixture
def table(tmp_path: Path) -> HandmadeTable:
    return HandmadeTable(tmp_path, REGION, BY_REGION)


def test_nothing_is_advised_for_a_table_without_data_or_with_good_files(table: HandmadeTable) -> None:
    assert report_of(table).steps == ()
    table.commit(table.data_file(0, "eu", file_size_in_bytes=GOOD_SIZE))
    assert report_of(table).steps == ()


def test_small_files_are_counted_as_the_planner_takes_them(table: HandmadeTable) -> None:
    files = [table.data_file(0, region) for region in ("eu", "us") for _ in range(6)]
    table.commit(*files, table.data_file(0, "apac"))  # one small file of apac is not worth it
    [step] = report_of(table).steps
    assert step.text == "12 small files in 2 partitions of spec 0: a rewrite would make 2 of them."
    assert step.command == "lakeshift rewrite run db.events"


def test_advice_on_a_lived_in_table_has_the_numbers_of_three_plans(lived_in_table: HandmadeTable) -> None:
    steps = {step.kind: step for step in report_of(lived_in_table).steps}
    assert list(steps) == ["compact", "deletes", "migrate", "unused-deletes"]

    def planned(target: int | None = None, **options: int) -> tuple[str, str]:
        plan = RewriteDataFilesPlanner(
            lived_in_table.metadata,
            lived_in_table.io,
            options=RewriteOptions.of(options),
            target_spec_id=target,
        ).plan()
        return f"{plan.input_files:,}", f"{plan.expected_output_files:,}"

    assert f"would make {planned()[1]} of them" in steps["compact"].text
    for kind, numbers in (("deletes", planned(delete_file_threshold=1)), ("migrate", planned(2))):
        for number in numbers:
            assert number in steps[kind].text
    assert steps["deletes"].command == "lakeshift rewrite run db.events --delete-file-threshold 1"
    assert steps["migrate"].command == "lakeshift rewrite run db.events --target-spec-id 2"
    assert steps["unused-deletes"].command is None


@pytest.mark.parametrize("name", ["db.it's; rm -rf $HOME", "db.new\nline", "-db.dash"])
def test_commands_are_quoted_for_the_shell(table: HandmadeTable, name: str) -> None:
    table.commit(*(table.data_file(0, "eu") for _ in range(6)))
    facts = gather_facts(name, table.metadata, table.io, branch="main")
    advisor = Advisor(facts, table.metadata, table.io, ("--warehouse", "my lake"))
    [step] = advisor.steps()
    assert step.command is not None
    words = shlex.split(step.command)
    assert name in words
    assert ("--" in words) == name.startswith("-")
    assert words[words.index("--warehouse") + 1] == "my lake"
    assert words[words.index("--branch") + 1] == "main"


def test_a_default_spec_that_cannot_be_written_is_said_instead_of_a_command(table: HandmadeTable) -> None:
    table.commit(*(table.data_file(0, "eu", file_size_in_bytes=GOOD_SIZE) for _ in range(2)))
    table.add_spec(PartitionSpec(PartitionField(1, 1001, IdentityTransform(), "id"), spec_id=1))
    without_id = Schema(NestedField(3, "region", StringType()), schema_id=1)
    # As other engines leave it behind; PyIceberg refuses to drop a column of the default spec.
    table.metadata = table.metadata.model_copy(
        update={"schemas": [REGION, without_id], "current_schema_id": without_id.schema_id}
    )
    [step] = report_of(table).steps
    assert (step.kind, step.command) == ("migrate", None)
    assert "its source column (id 1) was dropped" in step.text


def test_no_command_is_given_for_a_table_that_would_refuse_it(table: HandmadeTable) -> None:
    table.commit(*(table.data_file(0, "eu") for _ in range(6)))
    table.metadata = table.metadata.model_copy(update={"properties": {"write.wap.enabled": "true"}})
    steps = report_of(table).steps
    assert [step.kind for step in steps] == ["compact", "refused"]
    assert all(step.command is None for step in steps)
    assert "write.wap.enabled=true" in steps[-1].text
