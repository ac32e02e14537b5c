"""Batch functions in Spark jobs, queried while they run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.spark.functions import READINGS, BatchTotals

from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from tests.spark.conftest import Connect, MakeFeed

    from queryable_state.streaming import StreamExecutionEnvironment


def test_the_state_of_a_batch_function_is_answered_and_feeds_the_next_operator(
    env: StreamExecutionEnvironment, feed: MakeFeed, connect: Connect
) -> None:
    source = feed(READINGS)
    stream = env.from_dataframe(source.dataframe()).key_by("sensor")
    totals = stream.process_batch(BatchTotals(), "sensor STRING, total DOUBLE").uid("totals")
    totals.key_by("sensor").aggregate_max("total", queryable_name="highest").uid("highest")
    source.add(*({"sensor": f"s{i % 3}", "temperature": float(i)} for i in range(30)))
    source.add({"sensor": "s0", "temperature": -1.0}, {"sensor": "new", "temperature": 0.5})
    job = env.execute_async("batch-function")
    job.process_all_available()
    client = connect(job)
    sums = {f"s{k}": float(sum(range(k, 30, 3))) for k in range(3)} | {"new": 0.5}
    states = client.get_kv_states(job.job_id, "batch-totals", list(sums))
    found = {key: state.value() for key, state in zip(sums, states, strict=True) if state}
    assert found == {**sums, "s0": sums["s0"] - 1.0}
    assert client.get_kv_state(job.job_id, "highest", "s0").get() == sums["s0"]


def test_process_batch_takes_only_batch_functions(
    env: StreamExecutionEnvironment, feed: MakeFeed
) -> None:
    stream = env.from_dataframe(feed(READINGS).dataframe()).key_by("sensor")
    with pytest.raises(InvalidRequestError, match="takes an instance of KeyedBatchProcessFunction"):
        stream.process_batch(lambda keys, table, state: table, READINGS)  # type: ignore[arg-type]
