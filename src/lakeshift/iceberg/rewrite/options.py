"""The options of a rewrite: the names and defaults that users know from Iceberg's own `rewrite_data_files`.

Python has them underscored, the command line as Java spells them. An unknown name, or a value that cannot
be meant, is an error before anything is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from types import MappingProxyType
from typing import Any

from lakeshift.errors import ConfigError
from lakeshift.iceberg.table_properties import whole_number

TARGET_FILE_SIZE_PROPERTY = "write.target-file-size-bytes"
DEFAULT_TARGET_FILE_SIZE = 512 * 1024 * 1024
MIN_SIZE_RATIO, MAX_SIZE_RATIO = 0.75, 1.8
JOB_ORDERS = ("none", "bytes-asc", "bytes-desc", "files-asc", "files-desc")

# Names that Java's action has and this one does not, with what to do instead.
_ELSEWHERE: Mapping[str, str] = MappingProxyType(
    {
        "output_spec_id": "Pass target_spec_id (--target-spec-id): it also moves the well-sized files of other specs.",
        "compression_factor": "It belongs to sorting, and files are packed here, not sorted.",
        "shuffle_partitions_per_file": "It belongs to sorting, and files are packed here, not sorted.",
        "max_file_group_rewrites": "Did you mean max_concurrent_file_group_rewrites?",
    }
)


def _option(default: Any, java_name: str, doc: str) -> Any:
    return field(default=default, metadata={"java_name": java_name, "doc": doc})


@dataclass(frozen=True, kw_only=True)
class RewriteOptions:
    """How files are chosen, grouped and committed. None stands for "no limit", or for a default that depends."""

    target_file_size_bytes: int | None = _option(
        None,
        "target-file-size-bytes",
        f"The size that output files should have; the table property {TARGET_FILE_SIZE_PROPERTY}, else 512 MB.",
    )
    min_file_size_bytes: int | None = _option(
        None, "min-file-size-bytes", "Files below this size are rewritten; 75% of the target."
    )
    max_file_size_bytes: int | None = _option(
        None, "max-file-size-bytes", "Files above this size are rewritten; 180% of the target."
    )
    min_input_files: int = _option(5, "min-input-files", "A partition with so many wrongly sized files is rewritten.")
    rewrite_all: bool = _option(False, "rewrite-all", "Rewrite every file that the filter admits.")
    max_file_group_size_bytes: int = _option(
        100 * 1024**3, "max-file-group-size-bytes", "The most bytes that one group may have."
    )
    max_file_group_input_files: int | None = _option(
        None, "max-file-group-input-files", "The most files that one group may have."
    )
    max_files_to_rewrite: int | None = _option(None, "max-files-to-rewrite", "The most files to rewrite in all.")
    delete_file_threshold: int | None = _option(
        None, "delete-file-threshold", "Files with so many delete files are rewritten, whatever their size."
    )
    delete_ratio_threshold: float = _option(
        0.3,
        "delete-ratio-threshold",
        "Files with this share of rows deleted are rewritten, whatever their size.",
    )
    rewrite_job_order: str = _option("none", "rewrite-job-order", f"Which groups come first: {', '.join(JOB_ORDERS)}.")
    max_concurrent_file_group_rewrites: int = _option(
        5, "max-concurrent-file-group-rewrites", "How many groups are rewritten at once."
    )
    partial_progress_enabled: bool = _option(
        False, "partial-progress.enabled", "Commit finished groups while others are still running."
    )
    partial_progress_max_commits: int = _option(
        10, "partial-progress.max-commits", "The most commits that partial progress may make."
    )
    partial_progress_max_failed_commits: int | None = _option(
        None, "partial-progress.max-failed-commits", "How many of them may fail; by default all."
    )
    use_starting_sequence_number: bool = _option(
        True,
        "use-starting-sequence-number",
        "Give new files the sequence number of the snapshot that was planned on, so that equality deletes which come "
        "in meanwhile still apply.",
    )
    remove_dangling_deletes: bool = _option(
        True, "remove-dangling-deletes", "Remove delete files that apply to nothing any more, in the same commit."
    )

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> RewriteOptions:
        """Options by their Python names; a name that is not one of them is a ConfigError."""
        known = {item.name for item in fields(cls)}
        for name in options:
            if name not in known:
                hint = _ELSEWHERE.get(name, f"It has {', '.join(sorted(known))}.")
                raise ConfigError(f"A rewrite has no option {name!r}. {hint}")
        return cls(**options)

    def __post_init__(self) -> None:
        for item in fields(self):
            _check_type(item.name, getattr(self, item.name), str(item.type))
        for name in ("target_file_size_bytes", "max_file_group_size_bytes", "max_file_group_input_files"):
            self._at_least(name, 1)
        for name in ("max_files_to_rewrite", "min_input_files", "max_concurrent_file_group_rewrites"):
            self._at_least(name, 1)
        self._at_least("partial_progress_max_commits", 1)
        self._at_least("partial_progress_max_failed_commits", 0)
        self._at_least("min_file_size_bytes", 0)
        # Java takes 0 here, which selects every file, again and again.
        self._at_least("delete_file_threshold", 1, "To rewrite every file, set rewrite_all.")
        if not 0 < self.delete_ratio_threshold <= 1:
            raise ConfigError(
                f"delete_ratio_threshold is {self.delete_ratio_threshold}; it must be above 0 and at most 1."
            )
        if self.rewrite_job_order not in JOB_ORDERS:
            raise ConfigError(
                f"rewrite_job_order is {self.rewrite_job_order!r}; it must be one of {', '.join(JOB_ORDERS)}."
            )

    def _at_least(self, name: str, least: int, remedy: str = "") -> None:
        value = getattr(self, name)
        if value is not None and value < least:
            raise ConfigError(" ".join(filter(None, [f"{name} is {value}; it must be at least {least}.", remedy])))

    def sizes(self, properties: Mapping[str, str]) -> FileSizes:
        """The sizes that hold for a table with these properties."""
        target = self.target_file_size_bytes
        if target is None:
            target = whole_number(properties, TARGET_FILE_SIZE_PROPERTY, DEFAULT_TARGET_FILE_SIZE)
        smallest = int(target * MIN_SIZE_RATIO) if self.min_file_size_bytes is None else self.min_file_size_bytes
        largest = int(target * MAX_SIZE_RATIO) if self.max_file_size_bytes is None else self.max_file_size_bytes
        return FileSizes(target, smallest, largest)

    @property
    def max_failed_commits(self) -> int:
        """How many commits of partial progress may fail."""
        given = self.partial_progress_max_failed_commits
        return self.partial_progress_max_commits if given is None else given


@dataclass(frozen=True)
class FileSizes:
    """Which sizes a file should have, in bytes: files within ``smallest`` and ``largest`` are left alone."""

    target: int
    smallest: int
    largest: int

    def __post_init__(self) -> None:
        if self.target < 1:
            raise ConfigError(f"target_file_size_bytes is {self.target}; it must be at least 1.")
        if not self.smallest < self.target < self.largest:
            raise ConfigError(
                f"target_file_size_bytes ({self.target}) must lie between min_file_size_bytes ({self.smallest}) and "
                f"max_file_size_bytes ({self.largest}); otherwise every new file would be rewritten again."
            )

    def output_files(self, total: int) -> int:
        """Into how many files so many bytes are best written: evenly, each within the limits where that is possible.

        Near the target counts most, and of two equally good numbers the smaller one is taken.
        """
        low = max(1, total // self.target)
        candidates = [number for number in (low, low + 1) if self.smallest <= total / number <= self.largest]
        if not candidates:
            return low if total / low <= self.largest else low + 1
        return min(candidates, key=lambda number: (abs(total / number - self.target), number))


def java_names() -> dict[str, str]:
    """The options' names in Python by those that Java has for them."""
    return {item.metadata["java_name"]: item.name for item in fields(RewriteOptions)}


def option_default(name: str) -> Any:
    """The default of an option, by its Python name."""
    (found,) = (item for item in fields(RewriteOptions) if item.name == name)
    return None if found.default is MISSING else found.default


_KINDS: Mapping[str, tuple[type, str]] = MappingProxyType(
    {
        "int": (int, "a whole number"),
        "bool": (bool, "True or False"),
        "str": (str, "text"),
        "float": (float, "a number"),
    }
)


def _check_type(name: str, value: Any, declared: str) -> None:
    wanted, _, optional = declared.partition(" | ")
    if value is None and optional:
        return
    kind, said = _KINDS[wanted]
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ConfigError(f"{name} is {value!r}; it must be {said}.")
