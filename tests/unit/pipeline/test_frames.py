"""Functions by their import path, and paths of the pipeline file."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lakeshift.errors import ConfigError
from lakeshift.pipeline.frames import import_function
from lakeshift.pipeline.paths import resolve


def test_a_module_beside_the_file_is_found_and_the_search_path_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "beside_the_pipeline.py").write_text("def double(n):\n    return 2 * n\n")
    before = list(sys.path)
    assert import_function(tmp_path, "doubled", "beside_the_pipeline:double")(4) == 8
    assert sys.path == before


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("no_such_module.at_all:f", "transform.x: no_such_module.at_all:f cannot be imported: No module named"),
        ("json:no_such_function", "transform.x: the module json has no function 'no_such_function'"),
    ],
)
def test_what_cannot_be_imported_is_named(path: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"^{told}"):
        import_function(tmp_path, "x", path)


def test_relative_paths_are_relative_to_the_file() -> None:
    assert resolve(Path("/pipelines"), "in/*.csv") == "/pipelines/in/*.csv"
    assert resolve(Path("/pipelines"), "/data/a.csv") == "/data/a.csv"
    assert resolve(Path("/pipelines"), "s3://lake/a.csv") == "s3://lake/a.csv"
