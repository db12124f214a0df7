"""Environments as users make them: for tests that leave the project's own one behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def uv(*arguments: str | Path) -> None:
    tool = ROOT / ".tools" / "bin" / "uv"
    program = str(tool) if tool.exists() else shutil.which("uv")
    assert program, "uv is missing: run the tests with make"
    # make has environments compiled that live long; these do not.
    environment = {**os.environ, "UV_COMPILE_BYTECODE": "0"}
    done = subprocess.run(
        [program, *map(str, arguments)], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"uv {' '.join(map(str, arguments))}\n{done.stderr}"


def build_wheel(folder: Path) -> Path:
    """The project's wheel, built from this tree."""
    uv("build", "--quiet", "--wheel", "--out-dir", folder)
    return next(folder.glob("*.whl"))


def locked_requirements(folder: Path) -> Path:
    """The tested versions of everything but Spark, so that nothing is resolved anew."""
    file = folder / "locked.txt"
    uv("export", "--frozen", "--quiet", "--no-dev", "--no-emit-project", "--no-hashes", "-o", file)
    return file


def install(environment: Path, *packages: str, constraints: Path) -> None:
    """Install packages into an environment, which is made where it is not there."""
    if not environment.exists():
        uv("venv", "--quiet", "--python", sys.executable, environment)
    uv("pip", "install", "--quiet", "--python", environment / "bin" / "python", "-c", constraints, *packages)
