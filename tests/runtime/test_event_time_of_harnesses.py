"""Harnesses whose elements have timestamps."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from queryable_state.streaming import (
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
    Types,
)
from queryable_state.streaming.testing import (
    BroadcastOperatorHarness,
    KeyedOperatorHarness,
    TwoInputOperatorHarness,
)
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMED = "k STRING, at TIMESTAMP"
ROW = ("a", datetime.fromtimestamp(7, UTC))


class OfKey(KeyedProcessFunction):
    """Emits the timestamp of each element."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield ctx.timestamp()


class OfBoth(KeyedCoProcessFunction):
    """Emits the timestamp of each element of both inputs."""

    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield ctx.timestamp()

    process_element2 = process_element1


class OfElementAndRule(KeyedBroadcastProcessFunction):
    """Emits the timestamp of each element of both inputs."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield ctx.timestamp()

    process_broadcast_element = process_element


def test_keyed_elements_have_the_timestamp_of_the_named_column() -> None:
    harness = KeyedOperatorHarness(
        OfKey(), TIMED, key_by="k", event_time="at", output_type="BIGINT"
    )
    assert harness.process([ROW]) == [7000]
    with pytest.raises(InvalidRequestError, match="no column 'ts'; the columns are k, at"):
        KeyedOperatorHarness(OfKey(), TIMED, key_by="k", event_time="ts")


def test_each_of_two_inputs_may_have_timestamps() -> None:
    harness = TwoInputOperatorHarness(
        OfBoth(),
        "k STRING",
        TIMED,
        key_by=("k", "k"),
        event_times=("", "at"),
        output_type="BIGINT",
    )
    assert harness.process([("a",)], [ROW]) == [None, 7000]


def test_broadcast_elements_may_have_timestamps() -> None:
    rules = MapStateDescriptor("rules", Types.STRING(), Types.STRING())
    harness = BroadcastOperatorHarness(
        OfElementAndRule(),
        [rules],
        "k STRING",
        TIMED,
        key_by="k",
        event_times=("", "at"),
        output_type="BIGINT",
    )
    # Each of the two subtasks reads the broadcast element.
    assert harness.process([("a",)], broadcast=[ROW]) == [7000, 7000, None]
