"""A job to copy: the number and the total of each customer's orders, queryable while it runs.

All that differs between a laptop and a cluster is configuration: see README.md beside this file.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from queryable_state.streaming import StreamExecutionEnvironment

CUSTOMERS = 10


def main() -> None:
    """Runs until the driver is stopped; a restarted one goes on from the last committed batch."""
    spark = SparkSession.builder.appName("orders").getOrCreate()
    # Replace this by a source that can be read again, such as Kafka or files.
    orders = (
        spark.readStream.format("rate")
        .option("rowsPerSecond", 100)
        .load()
        .selectExpr(f"concat('customer_', value % {CUSTOMERS}) AS customer", "1L AS amount")
    )
    env = StreamExecutionEnvironment.get_execution_environment(spark)
    totals = env.from_dataframe(orders).key_by("customer")
    totals.aggregate_sum("amount", queryable_name="totals").uid("totals")
    env.execute("orders")


if __name__ == "__main__":
    main()
