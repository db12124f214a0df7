"""Pipeline files: what is wrong is told with its line and field, and what came from the environment is not told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakeshift.errors import ConfigError
from lakeshift.pipeline.environment import Environment
from lakeshift.pipeline.model import DeltaWrite, IcebergAppend, IcebergMerge, Pipeline
from lakeshift.pipeline.reads import FileRead
from lakeshift.pipeline.text import load_pipeline, parse_pipeline

GOOD = """\
name: trips
lake: {warehouse: ./lake}
read:
  arrivals:
    format: csv
    path: in/*.csv
    schema: id bigint, on_time boolean
transform:
  clean:
    sql: SELECT * FROM arrivals
write:
  trips:
    format: iceberg
    mode: append
    from: clean
    table: db.trips
    spec_id: 1
"""


def refused(text: str, **variables: str) -> str:
    with pytest.raises(ConfigError) as raised:
        parse_pipeline(text, "p.yaml", Environment(variables))
    assert raised.value.__cause__ is None
    return str(raised.value)


def test_a_file_becomes_a_model() -> None:
    model = parse_pipeline(GOOD)
    read, write = model.read["arrivals"], model.write["trips"]
    assert isinstance(read, FileRead)
    assert read.paths == ["in/*.csv"]
    assert isinstance(write, IcebergAppend)
    assert (write.from_, write.spec_id, write.quarantine) == ("clean", 1, None)
    assert model.formats == ("iceberg",)


def test_words_that_yaml_takes_for_truth_values_stay_words() -> None:
    merge = GOOD.replace("mode: append", "mode: merge").replace(
        "    spec_id: 1\n",
        "    on: target.id = source.id\n    clauses:\n"
        "      - {when: matched, then: update, set: {no: off, day: 2026-01-01}}\n",
    )
    write = parse_pipeline(merge).write["trips"]
    assert isinstance(write, IcebergMerge)
    assert write.on == "target.id = source.id"
    assert write.clauses[0].set_ == {"no": "off", "day": "2026-01-01"}


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "    spec_id: 1",
            "    spec: 1",
            "p.yaml:17:5: write.trips.spec: 'spec' is not known here. Did you mean 'spec_id'?",
        ),
        ("spec_id: 1", "spec_id: one", "p.yaml:17:5: write.trips.spec_id: it must be a whole number, not 'one'."),
        ("table: db.trips", "table: 5", "p.yaml:16:5: write.trips.table: it must be text, not 5; put it in quotes."),
        (
            "mode: append",
            "mode: apend",
            "p.yaml:14:5: write.trips.mode: 'apend' is not known. Allowed: append, overwrite, merge.",
        ),
        ("    mode: append\n", "", "p.yaml:12:3: write.trips.mode: it is required, and missing. Allowed: append"),
        (
            "format: csv",
            "format: xml",
            "p.yaml:5:5: read.arrivals.format: 'xml' is not known. Allowed: hudi, iceberg, delta",
        ),
        ("    from: clean\n", "", "p.yaml:12:3: write.trips.from: it is required, and missing."),
        (
            "from: clean",
            "from: cleaned",
            "p.yaml:15:5: write.trips.from: 'cleaned' is not defined before it is used; there are: arrivals, clean.",
        ),
        ("  clean:\n", "  arrivals:\n", "p.yaml:9:3: transform.arrivals: 'arrivals' is the name of another input"),
        (
            "sql: SELECT",
            "python: x.py\n    sql: SELECT",
            "p.yaml:10:5: transform.clean.python: 'x.py' is not a name that can be used",
        ),
        ("sql: SELECT", "python: x:y\n    sql: SELECT", "p.yaml:9:3: transform.clean: give either sql or python."),
        ("read:\n  arrivals:", "read:\n  my-arrivals:", "p.yaml:4:3: read.my-arrivals: 'my-arrivals' is not a name"),
        (
            "    path: in/*.csv",
            "    path: a\n    path: b",
            "p.yaml:7:5: read.arrivals.path: it is there already, in line 6",
        ),
        ("name: trips", "name: !!python/name:os.system trips", "p.yaml:1:7: name: the tag"),
        ("name: trips", "name: [", "p.yaml:3:1: this is not YAML"),
        (
            "./lake",
            "${LAKE}",
            "p.yaml:2:20: this is not YAML: expected ',' or '}', but got '{'. Inside of {} and [] put",
        ),
        ("name: trips", "name: &a [*a]", "p.yaml:1:7: name.0: an alias repeats itself without end."),
        (
            "table: db.trips",
            "table: ${NO_SUCH}",
            "p.yaml:16:12: write.trips.table: The environment variable NO_SUCH is not set.",
        ),
        ("table: db.trips", "table: ${1}", "p.yaml:16:12: write.trips.table: ${1} names no variable"),
        ("lake: {warehouse: ./lake}", "lake: here", "p.yaml:2:1: lake: it must be a mapping of names, not 'here'."),
    ],
)
def test_a_mistake_is_told_with_line_field_and_what_is_allowed(old: str, new: str, told: str) -> None:
    assert old in GOOD
    assert refused(GOOD.replace(old, new, 1)).startswith(told)


def test_all_mistakes_are_told_at_once() -> None:
    told = refused(GOOD.replace("format: csv", "format: xml").replace("spec_id: 1", "spec_id: one"))
    assert told.startswith("p.yaml has 2 problems:\n  p.yaml:5:5: ")
    assert "\n  p.yaml:17:5: " in told


def test_names_that_differ_in_case_only_are_refused() -> None:
    assert "'Arrivals' is the name of another input" in refused(GOOD.replace("  clean:", "  Arrivals:"))


def test_nothing_to_do_is_a_mistake() -> None:
    assert "nothing to do: give write or maintain" in refused("name: a\nread:\n  a: {format: csv, path: x}\n")
    assert refused("").startswith("p.yaml:1:1: the file is empty")


def test_variables_stand_for_text_numbers_and_truth_values() -> None:
    text = GOOD.replace("db.trips", "db.${T}").replace("spec_id: 1", "spec_id: ${SPEC:-3}").replace("./lake", "'$${x}'")
    model = parse_pipeline(text, environment=Environment({"T": "007"}))
    write = model.write["trips"]
    assert isinstance(write, IcebergAppend)
    assert (write.table, write.spec_id, model.lake.warehouse) == ("db.007", 3, "${x}")
    delta = GOOD.replace("mode: append", "path: x").replace("format: iceberg", "format: delta")
    delta = delta.replace("    table: db.trips\n", "").replace("spec_id: 1", 'create: "${MAKE}"')
    made = parse_pipeline(delta, environment=Environment({"MAKE": "false"})).write["trips"]
    assert isinstance(made, DeltaWrite)
    assert made.create is False
    # Text in quotes is text, where no variable made it.
    assert "it must be true or false, not 'false'" in refused(delta, MAKE="no").replace("'no'", "'false'")
    assert "it must be a whole number, not '3'" in refused(GOOD.replace("spec_id: 1", "spec_id: '3'"))


def test_an_empty_variable_takes_the_default() -> None:
    environment = Environment({"EMPTY": ""})
    assert environment.expand("${EMPTY:-x}${EMPTY}") == "x"
    assert environment.used == {}


def test_what_came_from_the_environment_is_never_told() -> None:
    text = GOOD.replace("spec_id: 1", "spec_id: ${SECRET}").replace("mode: append", "mode: ${SECRET}-mode")
    told = refused(text, SECRET="hunter22")
    assert "hunter22" not in told
    assert "'${SECRET}-mode' is not known" in told


def test_redaction_keeps_data_restorable_and_short_values_readable() -> None:
    environment = Environment({"BUCKET": "acme-lake", "REGION": "eu"})
    environment.expand("${BUCKET} ${REGION}")
    data = {"files": ["s3://acme-lake/queue/${odd}", "eu"], "count": 3}
    kept = environment.keep(data)
    assert kept == {"files": ["s3://${BUCKET}/queue/$${odd}", "${REGION}"], "count": 3}
    assert environment.restore(kept) == data
    assert "acme" not in repr(environment)
    assert environment.redact_all(data)["files"][0] == "s3://${BUCKET}/queue/${odd}"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="There is no pipeline file .*nowhere.yaml"):
        load_pipeline(tmp_path / "nowhere.yaml")


def test_the_schema_describes_every_field_by_its_name_in_the_file() -> None:
    schema = json.dumps(Pipeline.model_json_schema(by_alias=True))
    assert '"from_"' not in schema
    assert '"schema_"' not in schema
    assert '"set"' in schema
    assert '"additionalProperties": false' in schema


def test_the_example_is_a_pipeline() -> None:
    model = load_pipeline(Path(__file__).parents[3] / "examples" / "trips.yaml", Environment({}))
    assert list(model.write) == ["landing", "trips"]
