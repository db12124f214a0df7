"""The command line as people and programs call it: as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = str(Path(sys.executable).parent / "lakeshift")


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAM, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=300,
        check=False,
    )
