"""``lakeshift hudi`` as far as it goes without a session."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from lakeshift.cli.app import app
from lakeshift.cli.options import settings
from lakeshift.errors import StackError
from lakeshift.hudi import connector
from lakeshift.stack import Capability, Stack

pytestmark = pytest.mark.each_line  # one line has Hudi and the other says that it has not


@pytest.fixture(autouse=True)
def _plain_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "json", False)


def test_settings_name_the_jar_and_both_extensions(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    if not stack.can(Capability.HUDI_DSV2_READS):
        pytest.skip(f"Spark {stack.line} has no Hudi bundle")
    monkeypatch.setattr(connector, "find_jar", lambda stack: "/somewhere/connector.jar")
    shown = json.loads(CliRunner().invoke(app, ["hudi", "settings", "--json"], catch_exceptions=False).output)
    assert shown["spark.jars"] == "/somewhere/connector.jar"
    hudi, ours = shown["spark.sql.extensions"].split(",")
    assert hudi.endswith("HoodieSparkSessionExtension")
    assert ours == connector.EXTENSION
    assert "spark.ui.enabled" not in shown


def test_a_line_without_hudi_says_so(stack: Stack) -> None:
    if stack.can(Capability.HUDI_DSV2_READS):
        pytest.skip(f"Spark {stack.line} has a Hudi bundle")
    with pytest.raises(StackError, match="Hudi publishes no bundle"):
        CliRunner().invoke(app, ["hudi", "settings"], catch_exceptions=False)


def test_explain_wants_a_path() -> None:
    result = CliRunner().invoke(app, ["hudi", "explain"])
    assert result.exit_code == 2
    assert "PATH_OR_NAME" in result.output
