"""Columns whose names are not identifiers of SQL, as flattened JSON and CSV headers have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.spark.row_functions import CountOf

from queryable_state.streaming import Types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from tests.spark.conftest import Connect, MakeFeed

    from queryable_state.streaming import StreamExecutionEnvironment

OUTPUT = Types.ROW_NAMED(["device.id", "n`th"], [Types.STRING(), Types.LONG()])


def test_names_may_have_dots_backticks_and_spaces_in_every_kind_of_operator(
    env: StreamExecutionEnvironment, feed: MakeFeed, connect: Connect
) -> None:
    source = feed("id string, amount bigint")
    source.add({"id": "a", "amount": 1}, {"id": "b", "amount": 5}, {"id": "a", "amount": 2})
    # `device.id` is a column, beside a struct `device` whose field `id` has another value.
    rows = source.dataframe().selectExpr(
        "id AS `device.id`",
        "struct('other' AS id) AS device",
        "amount AS `the ``amount```",
        "id AS `a b`",
    )
    stream = env.from_dataframe(rows)
    keyed = stream.filter(lambda row: row["a b"] != "c").key_by("device.id", "a b")
    keyed.aggregate_sum("the `amount`", queryable_name="sums").uid("sums")
    stream.key_by("device.id").as_queryable_state("newest", latest_by="the `amount`")
    counts = stream.key_by("device.id").process(CountOf("device.id"), OUTPUT).uid("counts")
    found: list[Any] = []

    def collect(batch: DataFrame, batch_id: int) -> None:
        found.extend(map(tuple, batch.collect()))

    counts.key_by("n`th").process(CountOf("n`th", "again"), OUTPUT).uid("again")
    counts.add_sink(collect)
    job = env.execute_async("names")
    job.process_all_available()

    assert sorted(found) == [("a", 1), ("a", 2), ("b", 1)]
    client = connect(job)
    assert client.get_kv_state("names", "sums", ("a", "a")).get() == 3
    assert client.get_kv_state("names", "newest", "a").value()["the `amount`"] == 2
    assert client.get_kv_state("names", "again", 1).value() == 2
    job.cancel()
