"""What to do next with a table, each with the command that does it.

The numbers are those of the compaction planner itself, so that the command does what the report says.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from pyiceberg.io import FileIO
from pyiceberg.table.metadata import TableMetadata

from lakeshift.errors import ConfigError, SpecNotWritableError, UnsupportedTableError
from lakeshift.iceberg.commit.target import check_target
from lakeshift.iceberg.rewrite.options import RewriteOptions
from lakeshift.iceberg.rewrite.plan import RewriteDataFilesPlan, SpecInputs
from lakeshift.iceberg.rewrite.planner import RewriteDataFilesPlanner
from lakeshift.report.facts import TableFacts


@dataclass(frozen=True)
class Step:
    """One thing to do: why, and the command, which is None where no command of ours does it."""

    kind: str
    text: str
    command: str | None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Advisor:
    """Plans what a rewrite would do to a table, as its facts are. ``arguments`` say to the command which lake."""

    facts: TableFacts
    metadata: TableMetadata
    io: FileIO
    arguments: Sequence[str] = ()

    def steps(self) -> tuple[Step, ...]:
        """What is worth doing, the most useful first; empty if the table is as it should be."""
        if self.facts.snapshot_id is None:
            return ()
        compaction = self._plan()
        found = [self._compact(compaction), self._apply_deletes(compaction), self._migrate(), self._unused_deletes()]
        steps = [step for step in found if step is not None]
        refused = self._refusal()
        if steps and refused:
            return (*(Step(step.kind, step.text, None) for step in steps), Step("refused", refused, None))
        return tuple(steps)

    def _compact(self, plan: RewriteDataFilesPlan) -> Step | None:
        if not plan.groups:
            return None
        parts = [self._said_of_spec(plan, inputs) for inputs in _sources(plan)]
        text = f"{'; '.join(parts)}: a rewrite would make {plan.expected_output_files:,} of them."
        return Step("compact", text, self._command())

    def _said_of_spec(self, plan: RewriteDataFilesPlan, inputs: SpecInputs) -> str:
        sizes = inputs.files.column("file_size_in_bytes").to_numpy()[inputs.rows.to_numpy()]
        small, large = int((sizes < plan.sizes.smallest).sum()), int((sizes > plan.sizes.largest).sum())
        deleted = len(sizes) - small - large
        kinds = [
            _count(number, f"{what} file" if what else "file") + more
            for number, what, more in ((small, "small", ""), (large, "large", ""), (deleted, "", " with many deletes"))
            if number
        ]
        partitions = {group.key or group.partition for group in plan.groups if inputs.spec_id in group.spec_ids}
        return f"{_listed(kinds)} in {_count(len(partitions), 'partition')} of spec {inputs.spec_id}"

    def _apply_deletes(self, compaction: RewriteDataFilesPlan) -> Step | None:
        """Files with deletes that thresholds leave alone: a reader merges them in every time."""
        if not self.facts.totals.files_with_deletes:
            return None
        plan = self._plan(delete_file_threshold=1)
        if plan.input_files <= compaction.input_files:
            return None
        have = _count(self.facts.totals.files_with_deletes, "data file has", "data files have")
        return Step(
            "deletes",
            f"{have} to be read together with delete files, and an ordinary rewrite leaves some of them so. With this "
            f"one, {_count(plan.input_files, 'file')} would become {plan.expected_output_files:,}, and none be left.",
            self._command("--delete-file-threshold", "1"),
        )

    def _migrate(self) -> Step | None:
        default = self.facts.default_spec_id
        others = [spec for spec in self.facts.specs if not spec.is_default and spec.data_files]
        if not others:
            return None
        where = _listed([f"spec {spec.spec_id}" for spec in others])
        files = _count(sum(spec.data_files for spec in others), "file")
        lying = f"{files} with {_count(sum(spec.rows for spec in others), 'row')} still in {where}"
        try:
            plan = self._plan(target=default)
        except SpecNotWritableError as error:
            return Step("migrate", f"{lying} cannot be moved to the default spec {default}: {error}", None)
        return Step(
            "migrate",
            f"{lying}: moving them to the default spec {default} rewrites {_count(plan.input_files, 'file')} into "
            f"about {plan.expected_output_files:,}.",
            self._command("--target-spec-id", str(default)),
        )

    def _unused_deletes(self) -> Step | None:
        unused = sum(cost.unused_files for cost in self.facts.deletes)
        if not unused:
            return None
        said = f"{_count(unused, 'delete file applies', 'delete files apply')} to no data file any more."
        them = "it" if unused == 1 else "them"
        return Step(
            "unused-deletes", f"{said} The next rewrite that finds files to rewrite removes {them} as well.", None
        )

    def _refusal(self) -> str | None:
        """Why a rewrite of this table would be refused, if it would."""
        try:
            check_target(self.metadata, self.facts.branch, {})
        except (UnsupportedTableError, ConfigError) as error:
            return f"No command is given, for a rewrite of this table would be refused: {error}"
        return None

    def _plan(self, target: int | None = None, **options: Any) -> RewriteDataFilesPlan:
        return RewriteDataFilesPlanner(
            self.metadata,
            self.io,
            options=RewriteOptions.of(options),
            target_spec_id=target,
            snapshot_id=self.facts.snapshot_id,
        ).plan()

    def _command(self, *options: str) -> str:
        branch = () if self.facts.branch is None else ("--branch", self.facts.branch)
        name = self.facts.name
        # A name that begins with a dash would be read as an option.
        named = ("--", name) if name.startswith("-") else (name,)
        if len(named) == 1:
            return shlex.join(["lakeshift", "rewrite", "run", *named, *options, *branch, *self.arguments])
        return shlex.join(["lakeshift", "rewrite", "run", *options, *branch, *self.arguments, *named])


def _sources(plan: RewriteDataFilesPlan) -> list[SpecInputs]:
    """The files of a plan by spec, each once; groups of a spec share them."""
    found: dict[int, SpecInputs] = {}
    for group in plan.groups:
        for part in group.inputs:
            found.setdefault(part.spec_id, part.source)
    return [found[spec_id] for spec_id in sorted(found)]


def _count(number: int | np.integer[Any], one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _listed(parts: Iterable[str]) -> str:
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last
