"""A step of the pipeline beside this file: a function takes frames and gives one back."""

from __future__ import annotations

from pyspark.sql import DataFrame, functions


def with_price(trips: DataFrame, digits: int) -> DataFrame:
    """Add the price of a kilometre."""
    return trips.withColumn("price", functions.round(functions.col("fare") / functions.col("km"), digits))
