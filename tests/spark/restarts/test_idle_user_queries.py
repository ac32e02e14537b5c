"""Queries that their user starts, and that find nothing new to process."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

import pytest
from tests.spark.counting_jobs import KEYS, readings
from tests.spark.functions import COUNTS, READINGS, CountPerKey
from tests.waiting import until

from queryable_state.client.blocking import QueryableStateClient
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql.streaming.query import StreamingQuery
    from tests.spark.conftest import MakeFeed, NewEnvironment
    from tests.spark.feed import Feed

    from queryable_state.streaming import StreamExecutionEnvironment


def started(env: StreamExecutionEnvironment, source: Feed, folder: Path) -> StreamingQuery:
    """A query over two operators, which its user starts himself."""
    first = env.from_dataframe(source.dataframe()).key_by("sensor")
    second = first.process(CountPerKey("count"), COUNTS).uid("count").key_by("sensor")
    frame = second.process(CountPerKey("counted"), COUNTS).uid("counted").to_dataframe()
    writer = frame.writeStream.option("checkpointLocation", str(folder)).outputMode("update")
    query = writer.format("noop").start()
    query.processAllAvailable()
    return query


def values(env: StreamExecutionEnvironment, query: StreamingQuery) -> list[dict[object, int]]:
    """How many keys have each value of each state; empty where one is refused."""
    host, _, port = env.proxy_address().rpartition(":")
    found: list[dict[object, int]] = []
    try:
        with QueryableStateClient(host, int(port), timeout_s=1.0) as client:
            for state in ("count", "counted"):
                states = client.get_kv_states(query.id, state, KEYS)
                all_values = [None if each is None else each.value() for each in states]
                found.append({value: all_values.count(value) for value in set(all_values)})
    except QueryableStateError:
        return []
    return found


def server_pid(folder: Path) -> int:
    """Process of the state server that runs now; its directory is below the folder."""
    told = max(folder.glob("queryable-state-*/server.json"), key=lambda file: file.stat().st_mtime)
    pid: int = json.loads(told.read_text())["pid"]
    return pid


@pytest.mark.slow
def test_all_keys_are_answered_before_the_first_batch_and_after_a_kill_while_idle(
    new_environment: NewEnvironment, feed: MakeFeed, tmp_path: Path
) -> None:
    source = feed(READINGS)
    for _ in range(2):
        source.add(*readings())
    folder = tmp_path / "spark"
    query = started(new_environment(), source, folder)
    env = new_environment()
    again = started(env, source, folder)
    assert again.id == query.id
    until(lambda: values(env, again) == [{2: len(KEYS)}] * 2)
    assert again.lastProgress is None or not again.lastProgress["numInputRows"]

    pid = server_pid(tmp_path)
    os.kill(pid, signal.SIGKILL)
    until(lambda: values(env, again) == [])
    until(lambda: values(env, again) == [{2: len(KEYS)}] * 2)
    assert server_pid(tmp_path) != pid
    assert again.lastProgress is None or not again.lastProgress["numInputRows"]

    source.add(*readings(KEYS[:5]))
    again.processAllAvailable()
    assert values(env, again) == [{2: len(KEYS) - 5, 3: 5}] * 2
