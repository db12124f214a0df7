"""Steps on Delta tables, through the sink and its policy, and on Hudi tables, through Hudi's own V1 writer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeshift.errors import SchemaMismatchError
from lakeshift.pipeline.model import DeltaWrite, HudiWrite
from lakeshift.pipeline.paths import resolve
from lakeshift.pipeline.step import Explanation, RunMarks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakeshift.delta.sink import DeltaSink
    from lakeshift.lake import Lake
    from lakeshift.spark.progress import Progress


@dataclass(frozen=True)
class DeltaStep:
    """Rows that are appended to a Delta table. The step's transactions are numbered by run."""

    name: str
    lake: Lake
    base: Path
    frame: DataFrame
    model: DeltaWrite

    @property
    def target(self) -> str:
        return resolve(self.base, self.model.path) if self.model.path is not None else self.model.place

    def committed(self, marks: RunMarks) -> dict[str, Any] | None:
        from lakeshift.delta.log import DeltaLog
        from lakeshift.delta.target import Target

        location = Target(self.lake.spark, self.target).location()
        log = None if location is None else DeltaLog(self.lake.spark, location)
        if log is None or log.refresh() is None:
            return None
        application = marks.application(self.name)
        last = log.last_txn_version(application)
        if last is None or last < marks.number:
            return None
        version = log.commit_of(application, marks.number)
        info = (None if version is None else log.commit_info(version)) or {}
        rows = info.get("operationMetrics", {}).get("numOutputRows")
        return {"operation": "append", "version": version, "rows_written": None if rows is None else int(rows)}

    def explain(self) -> Explanation:
        with self._sink(None) as sink:
            plan = sink.explain(self.frame)
        try:
            plan.raise_if_refused(self.target)
        except SchemaMismatchError as error:
            error.args = (_as_a_file_says(str(error)),)
            raise
        return Explanation(self.name, plan.action, self.target, tuple(plan.lines()), plan.to_dict())

    def execute(self, marks: RunMarks, progress: Progress | None) -> dict[str, Any]:
        with self._sink(marks.application(self.name)) as sink:
            return {"operation": "append", **sink.write_batch(self.frame, marks.number).to_dict()}

    def _sink(self, application: str | None) -> DeltaSink:
        return self.lake.delta_sink(
            self.target,
            self.model.evolution.model_dump(),
            enable_type_widening=self.model.enable_type_widening,
            partition_by=self.model.partition_by,
            properties=self.model.properties,
            create=self.model.create,
            txn_app_id=application,
        )


@dataclass(frozen=True)
class HudiStep:
    """Rows that Hudi's own writer takes. The run's id is in the metadata of the commit."""

    name: str
    lake: Lake
    base: Path
    frame: DataFrame
    model: HudiWrite

    @property
    def target(self) -> str:
        return resolve(self.base, self.model.path)

    def committed(self, marks: RunMarks) -> dict[str, Any] | None:
        from lakeshift.hudi.timeline import HudiTimeline

        found = HudiTimeline(self.lake.spark, self.target).find(_metadata(marks, self.name))
        return None if found is None else {"operation": self.model.operation, "instant": found.requested}

    def explain(self) -> Explanation:
        from lakeshift.hudi.timeline import HudiTimeline

        model, columns = self.model, {name.lower() for name in self.frame.columns}
        needed = [*model.record_key, *model.partition_by, *([model.precombine] if model.precombine else [])]
        missing = [name for name in needed if name.split(".")[0].lower() not in columns]
        if missing:
            raise SchemaMismatchError(
                f"The rows for the Hudi table {self.target} have no column {', '.join(missing)}; they have "
                f"{', '.join(self.frame.columns)}. Nothing was written."
            )
        there = HudiTimeline(self.lake.spark, self.target).last() is not None
        line = f"{model.operation} by {', '.join(model.record_key)}" + ("" if there else ", into a new table")
        facts = {"operation": model.operation, "table_exists": there}
        return Explanation(self.name, model.operation, self.target, (line,), facts)

    def execute(self, marks: RunMarks, progress: Progress | None) -> dict[str, Any]:
        from lakeshift.hudi.timeline import HudiTimeline

        model = self.model
        options = {
            "hoodie.table.name": model.table_name,
            "hoodie.datasource.write.table.type": model.table_type,
            "hoodie.datasource.write.operation": model.operation,
            "hoodie.datasource.write.recordkey.field": ",".join(model.record_key),
            "hoodie.datasource.write.partitionpath.field": ",".join(model.partition_by),
            "hoodie.datasource.write.hive_style_partitioning": "true",
            **({"hoodie.datasource.write.precombine.field": model.precombine} if model.precombine else {}),
            **model.options,
            **_metadata(marks, self.name),
        }
        self.frame.write.format("hudi").options(**options).mode("append").save(self.target)
        found = HudiTimeline(self.lake.spark, self.target).find(_metadata(marks, self.name))
        return {"operation": model.operation, "instant": found and found.requested}


def _as_a_file_says(text: str) -> str:
    """The remedies of an error in the words of a pipeline file, where it gives them in those of Python."""
    text = re.sub(r'evolution=\{"(\w+)": "(\w+)"\}', r"evolution: {\1: \2}", text)
    return text.replace("enable_type_widening=True", "enable_type_widening: true")


def _metadata(marks: RunMarks, step: str) -> dict[str, str]:
    from lakeshift.hudi.timeline import METADATA_PREFIX

    return {f"{METADATA_PREFIX}{name}": value for name, value in marks.properties(step).items()}
