"""A user's path: the built wheel into an environment that has a pyspark of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from tests.installing import build_wheel, install, locked_requirements

# The wheel is the same for each line, and so is how pip treats a pyspark that is there.
pytestmark = [pytest.mark.once, pytest.mark.full]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with this line's pyspark, but in a version that the project does not pin."""
    folder = tmp_path_factory.mktemp("user")
    # What is pinned elsewhere must not matter here: a plain install, as a user does it, next to their own pyspark.
    install(folder / "env", f"pyspark=={metadata.version('pyspark')}", constraints=locked_requirements(folder))
    return folder / "env"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


def _run(environment: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(environment / "bin" / arguments[0]), *arguments[1:]],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=environment,
    )


def _installed(environment: Path) -> dict[str, str]:
    program = (
        "import importlib.metadata as m, json; "
        "print(json.dumps({found.name.lower(): found.version for found in m.distributions()}))"
    )
    found: dict[str, str] = json.loads(_run(environment, "python", "-c", program).stdout)
    return found


def test_the_wheel_leaves_the_users_pyspark_alone_and_doctor_is_well(
    environment: Path, wheel: Path, tmp_path: Path
) -> None:
    before = _installed(environment)
    assert "lakeshift" not in before
    install(environment, str(wheel), constraints=locked_requirements(tmp_path))
    after = _installed(environment)
    assert after["pyspark"] == before["pyspark"]
    assert "lakeshift" in after
    # What the demo runs travels in the wheel.
    with zipfile.ZipFile(wheel) as archive:
        packed = {Path(name).name for name in archive.namelist() if name.startswith("lakeshift/demo/files/")}
    assert {"arrive.yaml", "land.yaml", "landed.py", "tidy.yaml"} <= packed
    told = _run(environment, "lakeshift", "doctor", "--json")
    assert told.returncode == 0, told.stdout + told.stderr
    assert {finding["status"] for finding in json.loads(told.stdout)} <= {"ok", "skipped"}


def test_without_pyspark_doctor_prints_the_command_that_installs_one(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "env"
    install(environment, str(wheel), constraints=locked_requirements(tmp_path))
    told = _run(environment, "lakeshift", "doctor")
    assert told.returncode == 1
    assert "pip install 'lakeshift[spark35]'" in told.stdout
    assert str(Path(sys.executable)) not in told.stdout
