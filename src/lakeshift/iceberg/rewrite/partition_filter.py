"""A filter on files over all specs of a table: decided per partition, and open where it cannot be decided.

Each spec has its own evaluator: the filter, bound once to the table's schema, is projected onto the spec's
partition fields. Two things must not be confused. A spec is *unevaluable* if a partition field made from a
column of the filter has a transform or a type that cannot be read here: nothing is known of its partitions,
all are included and counted as failing open. A spec is *not constrained* if it has no such field, or only one
whose values cannot tell: all its partitions are included because all of them may match, and nothing failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.expressions.visitors import bind, extract_field_ids, rewrite_not
from pyiceberg.manifest import ManifestFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import IdentityTransform, UnknownTransform, VoidTransform
from pyiceberg.typedef import Record
from pyiceberg.types import PrimitiveType

from lakeshift.errors import ConfigError, FilterNotEvaluableError, UnknownSpecError
from lakeshift.iceberg.expression_text import expression_text
from lakeshift.iceberg.file_filter import partitions_that_match, project_onto_partitions
from lakeshift.iceberg.manifest_filter import manifests_that_match
from lakeshift.iceberg.partition_key import PartitionKey
from lakeshift.iceberg.partition_names import PartitionNames, partition_keys
from lakeshift.iceberg.partition_types import is_unpartitioned, partition_array, partition_field_type
from lakeshift.iceberg.rewrite.diagnostics import Concern, FilterStats, PlanWarning, SpecStatus, WarningList

_EVALUATION_ERRORS = (pa.ArrowException, ArithmeticError, LookupError, TypeError, ValueError)
_NAMED_PARTITIONS = 5


def bind_filter(
    where: BooleanExpression, metadata: TableMetadata, *, case_sensitive: bool = False
) -> BooleanExpression:
    """Bind a filter to the table's current schema, free of NOT; what does not fit the schema is a ConfigError."""
    try:
        return bind(metadata.schema(), rewrite_not(where), case_sensitive)
    except (ValueError, TypeError) as error:
        columns = ", ".join(metadata.schema().column_names)
        raise ConfigError(
            f"The filter does not fit the table: {error}. The table has the columns {columns}."
        ) from error


class PartitionFilterEvaluator:
    """Says for the partitions of one spec whether rows that a filter selects can be in them."""

    def __init__(self, spec: PartitionSpec, metadata: TableMetadata, projected: BooleanExpression, reason: str) -> None:
        self.spec = spec
        self.constrains = not isinstance(projected, AlwaysTrue)
        self.detail = expression_text(projected) if self.constrains else reason
        self._metadata = metadata
        self._projected = projected

    @classmethod
    def from_bound(
        cls, bound: BooleanExpression, metadata: TableMetadata, spec: PartitionSpec
    ) -> PartitionFilterEvaluator:
        """From a filter that `bind_filter` has bound; an unevaluable spec is a FilterNotEvaluableError."""
        columns = extract_field_ids(bound)
        used = [field for field in spec.fields if field.source_id in columns]
        for field in used:
            problem = _why_unusable(field, metadata)
            if problem:
                raise FilterNotEvaluableError(f"Partition field {field.name!r} of spec {spec.spec_id} {problem}.")
        try:
            projected = project_onto_partitions(bound, spec, metadata)
        except _EVALUATION_ERRORS as error:
            raise FilterNotEvaluableError(
                f"The filter cannot be projected onto the partitions of spec {spec.spec_id}: {error}."
            ) from error
        return cls(spec, metadata, projected, _why_not_constrained(spec, used))

    @classmethod
    def of(
        cls, where: BooleanExpression, metadata: TableMetadata, spec: PartitionSpec, *, case_sensitive: bool = False
    ) -> PartitionFilterEvaluator:
        """From a filter as it was written: binds it, then does what `from_bound` does."""
        bound = bind_filter(where, metadata, case_sensitive=case_sensitive)
        return cls.from_bound(bound, metadata, spec)

    def matches(self, partition: Sequence[Any]) -> bool:
        """Whether the filter can match in one partition, given as PyIceberg keeps it in a data file."""
        if len(partition) != len(self.spec.fields):
            raise ValueError(f"Spec {self.spec.spec_id} has {len(self.spec.fields)} fields, not {len(partition)}.")
        found: bool = self.matches_all(partition_array([Record(*partition)], self.spec, self._metadata))[0].as_py()
        return found

    def matches_all(self, partitions: pa.StructArray) -> pa.BooleanArray:
        """Whether the filter can match in each of these partitions, given as the ledger has them."""
        return partitions_that_match(self._projected, self.spec, partitions)

    def matches_manifests(self, manifests: Sequence[ManifestFile]) -> list[bool]:
        """Whether the filter can match in each of these manifests of the spec, by the manifest list alone."""
        return manifests_that_match(self._projected, self.spec, manifests)


@dataclass(frozen=True)
class Decision:
    """For each of some partitions: whether it is included, and whether only because it could not be decided."""

    included: pa.BooleanArray
    fail_open: pa.BooleanArray


class MultiSpecPartitionFilter:
    """A filter over the partitions of every spec of a table; each partition is evaluated once.

    What cannot be decided is included, and counted in `stats`.
    """

    def __init__(self, where: BooleanExpression, metadata: TableMetadata, *, case_sensitive: bool = False) -> None:
        self.bound = bind_filter(where, metadata, case_sensitive=case_sensitive)
        self.warnings = WarningList()
        self.evaluators: dict[int, PartitionFilterEvaluator | None] = {}
        self.problems: dict[int, str] = {}
        self._metadata = metadata
        self._names = PartitionNames(metadata)
        self._verdicts: dict[PartitionKey, bool] = {}
        self._fail_open: set[PartitionKey] = set()
        self._failed: set[PartitionKey] = set()
        for spec_id, spec in sorted(metadata.specs().items()):
            try:
                self.evaluators[spec_id] = PartitionFilterEvaluator.from_bound(self.bound, metadata, spec)
            except FilterNotEvaluableError as error:
                self.evaluators[spec_id] = None
                self.problems[spec_id] = str(error)
                self.warnings.add(PlanWarning(Concern.UNEVALUABLE_SPEC, spec_id, None, str(error)))

    def matches(self, key: PartitionKey) -> bool:
        """Whether files of this partition are included: the filter can match there, or it cannot be decided."""
        evaluator = self.evaluator(key.spec_id)
        if key not in self._verdicts:
            self._verdicts[key] = self._evaluate(evaluator, key)
        return self._verdicts[key]

    def decide(self, spec_id: int, partitions: pa.StructArray) -> Decision:
        """What `matches` says of many partitions of one spec at once; they must be distinct."""
        evaluator = self.evaluator(spec_id)
        spec = self._metadata.specs()[spec_id]
        count = len(partitions)
        if evaluator is None:
            self._fail_open.update(partition_keys(self._metadata, spec, partitions))
            return Decision(_all(True, count), _all(True, count))
        if is_unpartitioned(spec):
            return Decision(_all(True, count), _all(False, count))
        try:
            return Decision(evaluator.matches_all(partitions), _all(False, count))
        except _EVALUATION_ERRORS:
            # Which partitions are to blame is only seen one by one.
            keys = partition_keys(self._metadata, spec, partitions)
            included = [self.matches(key) for key in keys]
            return Decision(pa.array(included), pa.array([self.is_fail_open(key) for key in keys]))

    def matches_manifests(self, spec_id: int, manifests: Sequence[ManifestFile]) -> list[bool]:
        """Whether each of these manifests of a spec can hold files that are included."""
        evaluator = self.evaluator(spec_id)
        if evaluator is None or not evaluator.constrains:
            return [True] * len(manifests)
        try:
            return evaluator.matches_manifests(manifests)
        except _EVALUATION_ERRORS:
            # Summaries only save reading. The partitions themselves will say whether they can be evaluated.
            return [True] * len(manifests)

    def evaluator(self, spec_id: int) -> PartitionFilterEvaluator | None:
        """The evaluator of a spec, None if it is unevaluable; a spec that the table does not have is an error."""
        if spec_id not in self.evaluators:
            known = ", ".join(str(number) for number in self.evaluators)
            raise UnknownSpecError(
                f"A manifest of the table at {self._metadata.location} names partition spec {spec_id}, which its "
                f"metadata does not have; it has {known}. The table is damaged; nothing was planned."
            )
        return self.evaluators[spec_id]

    def is_fail_open(self, key: PartitionKey) -> bool:
        """Whether a partition that was asked for is only included because it could not be decided."""
        return key in self._fail_open

    def stats(self, fail_open_files: int = 0) -> FilterStats:
        """The counters so far; candidate files are counted by the planner, which knows them."""
        return FilterStats(len(self.problems), len(self._failed), len(self._fail_open), fail_open_files)

    def status(self, spec_id: int) -> tuple[SpecStatus, str]:
        """What the filter can say about a spec, and the projected filter or the reason."""
        evaluator = self.evaluator(spec_id)
        if evaluator is None:
            return SpecStatus.UNEVALUABLE, self.problems[spec_id]
        return (SpecStatus.CONSTRAINED if evaluator.constrains else SpecStatus.NOT_CONSTRAINED), evaluator.detail

    def is_decided_by_partitions(self, spec_id: int) -> bool:
        """Whether a spec's partition values hold all that the filter asks, so that metrics can add nothing."""
        spec = self._metadata.specs()[spec_id]
        whole = {field.source_id for field in spec.fields if isinstance(field.transform, IdentityTransform)}
        return extract_field_ids(self.bound) <= whole

    def require_decided(self) -> None:
        """Raise a FilterNotEvaluableError if any partition was included because it could not be decided."""
        if not self._fail_open:
            return
        lines = []
        for spec_id in sorted({key.spec_id for key in self._fail_open}):
            keys = sorted((key for key in self._fail_open if key.spec_id == spec_id), key=PartitionKey.sort_key)
            named = "; ".join(self.partition_text(key) for key in keys[:_NAMED_PARTITIONS])
            more = f" and {len(keys) - _NAMED_PARTITIONS} more" if len(keys) > _NAMED_PARTITIONS else ""
            why = self.problems.get(spec_id, "Its values could not be evaluated.")
            lines.append(f"spec {spec_id}, partitions {named}{more}: {why}")
        raise FilterNotEvaluableError(
            f"The filter cannot be decided for {len(self._fail_open)} partitions, and strictness is 'fail-closed': "
            f"{' | '.join(lines)} Use strictness 'fail-open' to include them, or a filter without these columns."
        )

    def partition_text(self, key: PartitionKey) -> str:
        """A partition as people write it."""
        return self._names.text(key)

    def _evaluate(self, evaluator: PartitionFilterEvaluator | None, key: PartitionKey) -> bool:
        if evaluator is None:
            self._fail_open.add(key)
            return True
        if key.partition is None:
            return True
        try:
            return evaluator.matches(key.partition)
        except _EVALUATION_ERRORS as error:
            self._failed.add(key)
            self._fail_open.add(key)
            text = f"The filter could not be evaluated: {type(error).__name__}: {error}"
            self.warnings.add(PlanWarning(Concern.EVALUATION_ERROR, key.spec_id, self.partition_text(key), text))
            return True


def _why_unusable(field: PartitionField, metadata: TableMetadata) -> str | None:
    """Why nothing can be said about a partition field's values, if so."""
    if isinstance(field.transform, VoidTransform):
        return None
    if isinstance(field.transform, UnknownTransform):
        return f"has a transform that is not known here ({field.transform!r})"
    source = metadata.schema().find_type(field.source_id)
    if not field.transform.can_transform(source):
        return f"has the transform {str(field.transform)!r}, which cannot be applied to its source of type {source}"
    result = partition_field_type(field, [metadata.schema()])
    return None if isinstance(result, PrimitiveType) else f"has values of type {result}, which cannot be evaluated here"


def _why_not_constrained(spec: PartitionSpec, used: Sequence[PartitionField]) -> str:
    if is_unpartitioned(spec):
        return "the spec is unpartitioned"
    telling = [field for field in used if not isinstance(field.transform, VoidTransform)]
    if not telling:
        return "no partition field is made from a column of the filter"
    return f"{', '.join(field.name for field in telling)} cannot tell which partitions match this filter"


def _all(value: bool, count: int) -> pa.BooleanArray:
    return pa.repeat(pa.scalar(value), count)
