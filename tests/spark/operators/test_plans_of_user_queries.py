"""Streaming plans behind `to_dataframe()`, in queries that their users start into plain sinks."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F
from tests.spark.functions import COUNTS, READINGS, CountPerKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from tests.spark.conftest import Connect, MakeFeed

    from queryable_state.streaming import StreamExecutionEnvironment

    StreamingPlan = Callable[[DataFrame, DataFrame, DataFrame], DataFrame]

PARALLELISM = 3
BATCHES = (
    [*(f"sensor_{number}" for number in range(9)), "sensor_0"],
    ["sensor_1"],
    [*(f"sensor_{number}" for number in range(5)), "late"],
)


def halves(counts: DataFrame) -> DataFrame:
    """The union of two filters of one operator."""
    odd = F.xxhash64("sensor") % 2 == 0
    return counts.where(odd).union(counts.where(~odd))


# Of two operators over the same rows, and another stream of rows alike in form.
PLANS: dict[str, StreamingPlan] = {
    "coalesce(1)": lambda first, *_: first.coalesce(1),
    "coalesce(2)": lambda first, *_: first.coalesce(2),
    "union of two operators": lambda first, second, _: first.union(second),
    "union of two operators, coalesce(1)": lambda first, second, _: first.union(second).coalesce(1),
    "union of two filters, coalesce(2)": lambda first, *_: halves(first).coalesce(2),
    "union behind another stream": lambda first, _, other: other.union(first),
    "limit(3)": lambda first, *_: first.limit(3),
    "join with a table, coalesce(1)": lambda first, *_: (
        first.join(F.broadcast(first.sparkSession.range(1, 100).toDF("count")), "count")
        .select("sensor", "count")
        .coalesce(1)
    ),
    "dropDuplicates, coalesce(1)": lambda first, *_: first.dropDuplicates().coalesce(1),
}


def expected(plan: str) -> tuple[Counter[tuple[str, int]], dict[str, int]]:
    """Rows that an operator puts out, and its counts in the end."""
    counts: Counter[str] = Counter()
    rows: list[tuple[str, int]] = []
    for batch in BATCHES:
        for sensor in batch:
            counts[sensor] += 1
            rows.append((sensor, counts[sensor]))
    copies = 2 if "two operators" in plan else 1
    return Counter(rows * copies), dict(counts)


@pytest.mark.slow
def test_plans_of_plain_sinks_see_and_count_all_rows_once(
    spark: SparkSession, env: StreamExecutionEnvironment, feed: MakeFeed, connect: Connect
) -> None:
    env.set_parallelism(PARALLELISM)
    queries = {}
    for number, (name, plan) in enumerate(PLANS.items()):
        source = feed(READINGS)
        for batch in BATCHES:
            source.add(*({"sensor": sensor, "temperature": 1.0} for sensor in batch))
        keyed = env.from_dataframe(source.dataframe()).key_by("sensor")
        first, second = (
            keyed.process(CountPerKey(state), COUNTS).uid(state) for state in ("first", "second")
        )
        other = source.dataframe().selectExpr("'other' AS sensor", "CAST(-1 AS BIGINT) AS count")
        frame = plan(first.to_dataframe(), second.to_dataframe(), other)
        writer = frame.writeStream.format("memory").queryName(f"plan_{number}")
        queries[name] = writer.outputMode("append").start()
    client = connect(env)
    for number, (name, query) in enumerate(queries.items()):
        query.processAllAvailable()
        rows, counts = expected(name)
        table = spark.table(f"plan_{number}").where("sensor != 'other'").collect()
        found = Counter(map(tuple, table))
        if name == "limit(3)":
            assert not found - rows, name
            assert found.total() == 3, name
        else:
            assert found == rows, name
        states = ["first", "second"] if "two operators" in name else ["first"]
        for state in states:
            answers = client.get_kv_states(query.id, state, list(counts))
            assert [each and each.value() for each in answers] == list(counts.values()), name
        query.stop()
