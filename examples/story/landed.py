"""The Python step of land.yaml: frames in, a frame out."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it


def of_day(trips: DataFrame, fares: DataFrame, day: str, types: Mapping[str, str]) -> DataFrame:
    """The trips whose fare is of a day, with the columns of both, in the types that the landing table wants."""
    todays = without_hudi_columns(fares).where(F.col("changed_on") == day).withColumnRenamed("trip", "id")
    landed = without_hudi_columns(trips).join(todays, "id")
    for column, kind in types.items():
        landed = landed.withColumn(column, F.col(column).cast(kind))
    return landed


def without_hudi_columns(frame: DataFrame) -> DataFrame:
    return frame.drop(*(name for name in frame.columns if name.startswith("_hoodie_")))
