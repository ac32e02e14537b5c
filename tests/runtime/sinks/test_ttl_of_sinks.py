"""Queryable sinks with a TTL: every write begins a life, and expired values count as absent."""

from __future__ import annotations

from typing import Any

import pytest

from queryable_state.streaming import (
    ReducingStateDescriptor,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)
from queryable_state.streaming.graph.elements import Columns
from queryable_state.streaming.ordering import order_columns
from queryable_state.streaming.runtime.operators.operators import LatestValueSink, ReducingSink
from queryable_state.streaming.testing import KeyedOperatorHarness
from queryable_state.streaming.testing.in_memory_state import InMemoryStateBackend
from queryable_state.wire.keys.key_groups import KeyGroups
from queryable_state.wire.schema.types import type_info
from queryable_state.wire.values.value_codec import timestamp_of

ROW = type_info("sensor STRING, degrees BIGINT, ts BIGINT")
TTL = StateTtlConfig.new_builder(Time.seconds(10)).build()


def harness_of(operator: Any, backend: InMemoryStateBackend, **options: Any) -> Any:
    return KeyedOperatorHarness(
        operator, ROW, key_by="sensor", parallelism=1, owner=backend, **options
    )


def latest(info: object, columns: list[str], ttl: StateTtlConfig | None, by: str = "ts") -> Any:
    descriptor = ValueStateDescriptor("last", info)
    if ttl is not None:
        descriptor.enable_time_to_live(ttl)
    order = order_columns(by, Columns({f.name: f.type for f in ROW.fields}), "latest_by")
    return LatestValueSink.of(descriptor, columns, order)


def stored_timestamps(harness: Any, *states: str) -> list[int | None]:
    wire_key = KeyGroups(Types.STRING(), 128).wire_key("a")
    found = [
        [value for _, value in harness.backend.records("operator", 0, state, wire_key + b"\x00")]
        for state in states
    ]
    return [timestamp_of(value) for values in found for value in values]


@pytest.mark.parametrize("apart", [False, True], ids=["rows", "order apart"])
def test_the_greatest_element_is_forgotten_once_it_is_expired(apart: bool) -> None:
    backend = InMemoryStateBackend()
    if apart:
        sink = latest(Types.LONG(), ["degrees"], TTL)
        harness = harness_of(sink, backend, value_column="degrees")
    else:
        harness = harness_of(latest(ROW, ["sensor", "degrees", "ts"], TTL), backend)

    def stored() -> Any:
        value = harness.state("last", "a")
        return value if apart else value.degrees

    harness.process([("a", 9, 9)])
    backend.timestamp_ms += 9_999
    harness.process([("a", 5, 5)])
    assert stored() == 9
    backend.timestamp_ms += 1
    harness.process([("a", 4, 4)])
    assert stored() == 4
    names = ["last", "last.latest_by"] if apart else ["last"]
    assert set(stored_timestamps(harness, *names)) == {backend.timestamp_ms}


def test_a_sink_without_its_ttl_reads_what_it_stored_with_one() -> None:
    backend = InMemoryStateBackend()
    columns = ["sensor", "degrees", "ts"]
    harness = harness_of(latest(ROW, columns, TTL), backend)
    harness.process([("a", 9, 9)])
    backend.timestamp_ms += 60_000
    restarted = harness_of(latest(ROW, columns, None), backend)
    restarted.batch_id = 1
    restarted.process([("a", 5, 5)])
    assert restarted.state("last", "a").degrees == 9
    restarted.process([("a", 10, 10)])
    assert stored_timestamps(restarted, "last") == [None]


def test_a_reducing_sink_begins_anew_after_an_expiry() -> None:
    backend = InMemoryStateBackend()
    descriptor = ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG())
    descriptor.enable_time_to_live(TTL)
    harness = harness_of(ReducingSink(descriptor), backend, value_column="degrees")
    harness.process([("a", 1, 0), ("a", 2, 0)])
    backend.timestamp_ms += 9_000
    harness.process([("a", 3, 0)])
    assert harness.state("sum", "a") == 6
    backend.timestamp_ms += 10_000
    harness.process([("a", 4, 0)])
    assert harness.state("sum", "a") == 4
