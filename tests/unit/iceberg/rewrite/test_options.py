"""Options: Java's names and defaults, and everything that cannot be meant refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from lakeshift.errors import ConfigError
from lakeshift.iceberg.rewrite.options import FileSizes, RewriteOptions, java_names

MB = 1024 * 1024


def test_defaults_are_those_of_java() -> None:
    options = RewriteOptions()
    assert options.sizes({}) == FileSizes(512 * MB, 384 * MB, int(512 * MB * 1.8))
    assert (options.min_input_files, options.rewrite_all, options.max_file_group_size_bytes) == (
        5,
        False,
        100 * 1024**3,
    )
    assert (options.delete_file_threshold, options.delete_ratio_threshold) == (None, 0.3)
    assert (options.max_concurrent_file_group_rewrites, options.rewrite_job_order) == (5, "none")
    assert (options.partial_progress_enabled, options.partial_progress_max_commits) == (False, 10)
    assert (options.max_failed_commits, options.use_starting_sequence_number) == (10, True)
    assert options.max_files_to_rewrite is None


def test_the_target_size_comes_from_the_table_unless_given() -> None:
    properties = {"write.target-file-size-bytes": "1000"}
    assert RewriteOptions().sizes(properties) == FileSizes(1000, 750, 1800)
    assert RewriteOptions(target_file_size_bytes=400, min_file_size_bytes=0).sizes(properties) == FileSizes(400, 0, 720)


def test_java_names_are_hyphenated_and_complete() -> None:
    names = java_names()
    assert names["partial-progress.max-commits"] == "partial_progress_max_commits"
    assert names["min-input-files"] == "min_input_files"
    assert all(java.replace("-", "_").replace(".", "_") == name for java, name in names.items())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"min_inputfiles": 3}, "no option 'min_inputfiles'.*min_input_files"),
        ({"output_spec_id": 1}, "no option 'output_spec_id'.*target_spec_id"),
        ({"compression_factor": 1.0}, "sorting"),
        ({"min_input_files": 0}, "min_input_files is 0; it must be at least 1"),
        ({"min_input_files": "5"}, "min_input_files is '5'; it must be a whole number"),
        ({"min_input_files": True}, "min_input_files is True; it must be a whole number"),
        ({"rewrite_all": 1}, "rewrite_all is 1; it must be True or False"),
        ({"delete_file_threshold": 0}, "delete_file_threshold is 0.*rewrite_all"),
        ({"delete_ratio_threshold": 1.5}, "delete_ratio_threshold is 1.5"),
        ({"rewrite_job_order": "biggest"}, "'biggest'.*bytes-desc"),
        ({"max_files_to_rewrite": -1}, "max_files_to_rewrite is -1"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        RewriteOptions.of(options)


@pytest.mark.parametrize("limits", [{"min_file_size_bytes": 1000}, {"max_file_size_bytes": 1000}])
def test_limits_that_no_new_file_could_meet_are_refused(limits: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=r"must lie between .* rewritten again"):
        RewriteOptions(target_file_size_bytes=1000, **limits).sizes({})


@pytest.mark.parametrize(
    ("total", "files"),
    [(10, 1), (999, 1), (1000, 1), (1400, 1), (1499, 1), (1500, 2), (1900, 2), (2400, 2), (2600, 3), (10_050, 10)],
)
def test_output_files_are_even_and_within_the_limits(total: int, files: int) -> None:
    sizes = FileSizes(1000, 750, 1800)
    assert sizes.output_files(total) == files
    assert total < 750 or 750 <= total / files <= 1800
