"""Stream-stream joins: inner by key, inner with a time range, left outer with a watermark."""

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from tests.native_state.programs.queries.aggregations import at
from tests.native_state.programs.written_query import WrittenQuery

SIDES = {
    "orders": "order BIGINT, customer STRING, amount DOUBLE, ordered TIMESTAMP",
    "payments": "payment BIGINT, paid_order BIGINT, payer STRING, paid TIMESTAMP",
}
Read = Callable[[str], DataFrame]


def _sides(read: Read) -> tuple[DataFrame, DataFrame]:
    orders = read("orders").withWatermark("ordered", "1 minute")
    payments = read("payments").withWatermark("paid", "1 minute")
    return orders, payments


def inner(read: Read) -> DataFrame:
    """Orders and payments by order and customer, all kept."""
    orders, payments = _sides(read)
    same = (F.col("order") == F.col("paid_order")) & (F.col("customer") == F.col("payer"))
    return orders.join(payments, same)


def _within_minutes() -> Column:
    return (
        (F.col("customer") == F.col("payer"))
        & (F.col("paid") >= F.col("ordered"))
        & (F.col("paid") <= F.expr("ordered + INTERVAL 2 MINUTES"))
    )


def inner_in_time(read: Read) -> DataFrame:
    """Orders and payments of a customer within two minutes; old rows are evicted."""
    orders, payments = _sides(read)
    return orders.join(payments, _within_minutes())


def left_outer(read: Read) -> DataFrame:
    """Orders with the payments of their customer within two minutes, or with none."""
    orders, payments = _sides(read)
    return orders.join(payments, _within_minutes(), "left_outer")


def by_window(read: Read) -> DataFrame:
    """Orders and payments of a customer in the same minute: the key holds the event time."""
    orders, payments = _sides(read)
    left = orders.withColumn("w", F.window("ordered", "1 minute")).drop("ordered")
    right = payments.withColumn("v", F.window("paid", "1 minute")).drop("paid")
    return left.join(
        right,
        (F.col("w") == F.col("v")) & (F.col("customer") == F.col("payer")),
        "left_outer",
    )


def feed_sides(query: WrittenQuery) -> None:
    """Seven batches, a minute apart, of both sides, with several rows a key; a restart between."""
    for minute in range(7):
        query.feed(
            orders=[
                {
                    "order": 100 * minute + n,
                    "customer": None if n == 11 else f"customer-{n % 13}",
                    "amount": n / 4,
                    "ordered": at(60 * minute + n % 55),
                }
                for n in range(30)
            ],
            payments=[
                {
                    "payment": 1000 * minute + n,
                    "paid_order": 100 * minute + n,
                    "payer": f"customer-{n % 13}",
                    "paid": at(60 * minute + n % 58),
                }
                for n in range(0, 30, 2)
            ],
        )
        if minute == 3:
            query.stop()
    query.stop()
