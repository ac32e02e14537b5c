"""Watermark strategies, and their assignment to streams, without Spark."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from queryable_state.streaming import (
    Duration,
    MapFunction,
    ProcessFunction,
    TimestampAssigner,
    Types,
    WatermarkStrategy,
)
from queryable_state.streaming.functions import UserFunctionError
from queryable_state.streaming.testing import ChainHarness
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.event_time import NO_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.streaming import DataStream

STAMPED = Types.TUPLE([Types.STRING(), Types.LONG()])


class Second(TimestampAssigner):
    """The number of an element `name@number`; of `before` the timestamp that it has."""

    def extract_timestamp(self, value: str, record_timestamp: int) -> int:
        name, _, number = value.partition("@")
        return record_timestamp if name == "before" else int(number)


class Stamped(ProcessFunction):
    def process_element(self, value: str, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield value, ctx.timestamp()


class OfNumpy(TimestampAssigner):
    def extract_timestamp(self, value: str, record_timestamp: int) -> Any:
        return np.int64(value)


class Wrong(TimestampAssigner):
    def extract_timestamp(self, value: str, record_timestamp: int) -> Any:
        return value


def assigned(assigner: TimestampAssigner) -> ChainHarness:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(assigner)

    def program(stream: DataStream) -> DataStream:
        return stream.assign_timestamps_and_watermarks(strategy).process(Stamped(), STAMPED)

    return ChainHarness(program, "string")


def test_the_delay_of_spark_is_a_millisecond_more_than_the_bound() -> None:
    """Flink's watermark is the greatest timestamp less the bound less 1 ms."""
    assert WatermarkStrategy.for_monotonous_timestamps().delay_ms == 1
    bounded = WatermarkStrategy.for_bounded_out_of_orderness
    assert bounded(Duration.of_seconds(5)).delay_ms == 5_001
    assert bounded(timedelta(milliseconds=7)).delay_ms == 8
    assert WatermarkStrategy.no_watermarks().delay_ms is None


def test_the_result_of_an_assigner_is_the_timestamp_of_the_element() -> None:
    harness = assigned(Second())
    assert harness.process(["a@3", "b@-7"]) == [("a@3", 3), ("b@-7", -7)]


def test_an_assigner_receives_the_least_long_for_an_element_without_a_timestamp() -> None:
    assert assigned(Second()).process(["before@1"]) == [("before@1", NO_TIMESTAMP)]


def test_a_timestamp_may_be_an_integer_of_numpy() -> None:
    assert assigned(OfNumpy()).process(["7"]) == [("7", 7)]


def test_an_assigner_that_returns_no_int_fails_with_its_name_and_element() -> None:
    with pytest.raises(UserFunctionError, match=r"Wrong.extract_timestamp.*'x'.*int of milli"):
        assigned(Wrong()).process(["x"])


def test_timestamps_may_be_assigned_without_watermarks() -> None:
    strategy = WatermarkStrategy.no_watermarks().with_timestamp_assigner(Second())
    harness = ChainHarness(
        lambda stream: (
            stream.map(str, Types.STRING())
            .assign_timestamps_and_watermarks(strategy)
            .process(Stamped(), STAMPED)
        ),
        "string",
    )
    assert harness.process(["a@3"]) == [("a@3", 3)]


def test_a_strategy_without_anything_leaves_the_stream_as_it_is() -> None:
    class Same(MapFunction):
        def map(self, value: str) -> str:
            return value

    def program(stream: DataStream) -> DataStream:
        assert stream.assign_timestamps_and_watermarks(WatermarkStrategy.no_watermarks()) is stream
        return stream.map(Same())

    assert ChainHarness(program, "string").process(["a"]) == ["a"]


def test_elements_without_timestamps_need_an_assigner() -> None:
    with pytest.raises(InvalidRequestError, match="with_timestamp_assigner"):
        ChainHarness(
            lambda stream: stream.assign_timestamps_and_watermarks(
                WatermarkStrategy.for_monotonous_timestamps()
            ),
            "string",
        )


def test_watermarks_cannot_be_assigned_twice() -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
    with pytest.raises(InvalidRequestError, match="has a watermark already"):
        ChainHarness(
            lambda stream: stream.assign_timestamps_and_watermarks(
                strategy
            ).assign_timestamps_and_watermarks(strategy),
            "string",
        )


@pytest.mark.parametrize("bound", [5, "5 seconds", timedelta(seconds=-1)])
def test_a_bound_is_a_duration_of_at_least_0(bound: Any) -> None:
    with pytest.raises(InvalidRequestError, match="max_out_of_orderness"):
        WatermarkStrategy.for_bounded_out_of_orderness(bound)


def test_alignment_is_refused_with_what_to_do() -> None:
    with pytest.raises(InvalidRequestError, match="maxOffsetsPerTrigger"):
        WatermarkStrategy.for_monotonous_timestamps().with_watermark_alignment(
            "group", Duration.of_seconds(1)
        )


def test_an_assigner_is_an_object_of_its_class() -> None:
    with pytest.raises(InvalidRequestError, match="subclass of TimestampAssigner"):
        WatermarkStrategy.no_watermarks().with_timestamp_assigner(
            lambda value, timestamp: timestamp  # type: ignore[arg-type]
        )
