"""Keyed states with a TTL in visits of all keys; operator states have none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from queryable_state.streaming import (
    KeyedBroadcastProcessFunction,
    MapStateDescriptor,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)
from queryable_state.streaming.testing import BroadcastOperatorHarness, InMemoryStateBackend
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from queryable_state.streaming import RuntimeContext

RETURNING = StateTtlConfig.new_builder(Time.seconds(10)).return_expired_if_not_cleaned_up().build()
RENEWED = StateTtlConfig.new_builder(Time.seconds(10)).update_ttl_on_read_and_write().build()


class Visits(KeyedBroadcastProcessFunction):
    """Keeps the last value of each key; visits all keys and reads their state if told to."""

    def __init__(self, ttl: StateTtlConfig) -> None:
        self.descriptor = ValueStateDescriptor("last", Types.LONG())
        self.descriptor.enable_time_to_live(ttl)

    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(self.descriptor)

    def process_element(self, value: Any, ctx: Any) -> None:
        self.last.update(value.number)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        visited: list[Any] = []
        reads = value.name == "read"
        ctx.apply_to_keyed_state(
            self.descriptor,
            lambda key, state: visited.append((key, state.value() if reads else -1)),
        )
        return visited


def harness_of(function: Any, backend: InMemoryStateBackend, limits: Any = None) -> Any:
    return BroadcastOperatorHarness(
        function,
        [limits or MapStateDescriptor("limits", Types.STRING(), Types.LONG())],
        "key STRING, number BIGINT",
        "name STRING",
        key_by="key",
        output_type="key STRING, last BIGINT",
        parallelism=1,
        owner=backend,
    )


def test_a_visit_finds_the_expired_value_that_it_was_called_for() -> None:
    backend = InMemoryStateBackend()
    harness = harness_of(Visits(RETURNING), backend)
    harness.process([("a", 1)])
    backend.timestamp_ms += 15_000
    assert harness.process([], broadcast=[("look",)]) == [("a", -1)]
    assert harness.process([], broadcast=[("read",)]) == [("a", 1)]
    assert harness.process([], broadcast=[("read",)]) == []


def test_a_visit_that_reads_nothing_renews_nothing() -> None:
    backend = InMemoryStateBackend()
    harness = harness_of(Visits(RENEWED), backend)
    harness.process([("a", 1)])
    backend.timestamp_ms += 9_000
    assert harness.process([], broadcast=[("look",)]) == [("a", -1)]
    backend.timestamp_ms += 1_000
    assert harness.process([], broadcast=[("look",)]) == []


def test_an_operator_state_with_a_ttl_is_refused() -> None:
    limits = MapStateDescriptor("limits", Types.STRING(), Types.LONG())
    limits.enable_time_to_live(RETURNING)
    with pytest.raises(InvalidRequestError, match="only keyed state can"):
        harness_of(Visits(RETURNING), InMemoryStateBackend(), limits).process([("a", 1)])
