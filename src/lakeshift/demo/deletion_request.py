"""Chapter: a customer asks to be forgotten, in a table that has rows under three partition specs."""

from __future__ import annotations

from lakeshift.demo.story import Stage

_ROWS = 300


def delete_a_customer(stage: Stage) -> None:
    lake, spark = stage.lake, stage.lake.spark
    orders = lake.create_iceberg_table(
        "demo.customer_orders", "id bigint, customer int, region string, amount double", partition_by=["region"]
    )

    def put(part: int) -> None:
        rows = spark.range(part * _ROWS, (part + 1) * _ROWS).selectExpr(
            "id", "int(id % 50) AS customer", "concat('r', id % 3) AS region", "double(id) AS amount"
        )
        orders.append(rows)

    put(0)
    orders.evolve_partitions(drop=["region"], add=["bucket(4, customer)"])
    put(1)
    orders.evolve_partitions(drop=["bucket(4, customer)"])
    put(2)
    stage.say(f"demo.customer_orders has {3 * _ROWS} rows: by region, by bucket of customer, and unpartitioned")

    result = orders.delete("customer = 7", mode="merge-on-read")
    stage.show(
        ["Spec", "Delete files added"],
        [[spec_id, found.added_delete_files] for spec_id, found in result.by_spec.items()],
    )
    stage.say(f"deleted customer 7: {result.rows_deleted} rows, in one commit, each marked under its own spec")
    changes = spark.createDataFrame([(8, 0.0), (999_999, 1.0)], "id long, amount double")
    merged = (
        orders.merge(changes, "target.id = source.id")
        .when_matched_update({"amount": "source.amount"})
        .when_not_matched_insert({"id": "source.id", "amount": "source.amount"})
        .execute()
    )
    stage.say(f"merged two rows: {merged.rows_deleted} updated, the other inserted")

    seen = orders.table.refresh().scan().to_arrow()
    stage.check("rows of customer 7 that PyIceberg still finds", seen["customer"].to_pylist().count(7), 0)
    stage.check("rows that are left", seen.num_rows, 3 * _ROWS - result.rows_deleted + 1)
