"""Windows of queryable sinks: which column they are, how long they stay, and what is warned of."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest
from pyspark.sql.types import (
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from queryable_state.streaming import (
    Duration,
    ReducingStateDescriptor,
    Time,
    Types,
    ValueStateDescriptor,
)
from queryable_state.streaming.graph.elements import Columns
from queryable_state.streaming.graph.job_graph import JobGraph, needs_clock
from queryable_state.streaming.graph.keys import KeySelector
from queryable_state.streaming.graph.nodes import SourceNode
from queryable_state.streaming.graph.origin import Grouping, Origin
from queryable_state.streaming.graph.stages import stages_of
from queryable_state.streaming.order_checks import order_warning
from queryable_state.streaming.runtime.operators.operators import LatestValueSink, ReducingSink
from queryable_state.streaming.runtime.operators.sink_window import SinkWindow
from queryable_state.streaming.sinks.sink_warnings import window_warning
from queryable_state.streaming.streams.keyed_input import KeyedInput
from queryable_state.v1.registration_pb2 import StateKind
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.keys.time_window import TIME_WINDOW_TYPE

if TYPE_CHECKING:
    from queryable_state.streaming.graph.nodes import OperatorNode
    from queryable_state.streaming.operator_handles import StreamEnvironment


class _Environment:
    """An environment that runs no job."""

    def _add_operator(self, node: OperatorNode) -> OperatorNode:
        return node


def bounds(of: DataType, *names: str) -> StructType:
    return StructType([StructField(name, of) for name in names or ("start", "end")])


def columns_of(*watermarked: str) -> Columns:
    """Columns of a windowed aggregation; these have a watermark."""
    types = {
        "sensor": StringType(),
        "window": bounds(TimestampType()),
        "shift": bounds(TimestampNTZType()),
        "span": bounds(TimestampType(), "begin", "finish"),
        "range": bounds(LongType()),
        "count": LongType(),
    }
    fields = [
        StructField(
            name, of, metadata={"spark.watermarkDelayMs": 1000} if name in watermarked else None
        )
        for name, of in types.items()
    ]
    return Columns.of_schema(StructType(fields))


def sink(
    *keys: str,
    watermark: tuple[str, ...] = ("window",),
    descriptor: Any = None,
    latest_by: Any = None,
    window: Any = None,
    retain: Any = None,
    grouping: Grouping | None = None,
) -> OperatorNode:
    """The operator of `key_by(*keys).as_queryable_state("counts", ...)`."""
    columns = columns_of(*watermark)
    source = SourceNode(
        dataframe=cast("Any", None),
        columns=columns,
        has_watermark=bool(watermark),
        origin=Origin((), grouping),
    )
    read = KeyedInput(
        cast("StreamEnvironment", _Environment()),
        source,
        KeySelector.by_columns(keys, columns),
        columns,
    )
    return read.queryable_sink("counts", descriptor, latest_by, window, retain)


def window_of(node: OperatorNode) -> SinkWindow | None:
    assert isinstance(node.operator, LatestValueSink)
    return node.operator.window


def test_a_window_apart_from_the_key_is_the_namespace_of_the_state() -> None:
    node = sink("sensor", window="window", latest_by="count", descriptor=_counts())
    assert window_of(node) == SinkWindow(column="window")
    assert isinstance(node.operator, LatestValueSink)
    found = {each.name: each for each in node.operator.descriptors}
    assert list(found) == ["counts", "counts.latest_by", "timers"]
    assert {each.namespace_type for each in found.values()} == {TIME_WINDOW_TYPE}
    assert found["timers"].kind == StateKind.TIMER
    # The tasks read the column, which is neither key nor value.
    graph = JobGraph.of([], [node])
    (stage,) = stages_of(graph, lambda each: (1, 128))
    assert "window" in stage.inputs[0].columns


def _counts() -> ValueStateDescriptor[Any]:
    return ValueStateDescriptor("counts", Types.ROW_NAMED(["sensor"], [Types.STRING()]))


def test_the_only_value_beside_key_order_and_window_is_stored() -> None:
    columns = columns_of("window")
    stored = Columns({name: columns.types[name] for name in ("sensor", "window", "count")})
    source = SourceNode(dataframe=cast("Any", None), columns=stored, has_watermark=True)
    environment = cast("StreamEnvironment", _Environment())
    keys = KeySelector.by_columns(("sensor",), stored)
    read = KeyedInput(environment, source, keys, stored)
    number = ValueStateDescriptor("counts", Types.LONG())
    node = read.queryable_sink("counts", number, None, "window", None)
    assert node.inputs[0].value_columns == ("count",)


def test_a_window_in_the_key_is_that_of_the_watermark() -> None:
    node = sink("sensor", "window")
    assert window_of(node) == SinkWindow(column="window", is_key=True)
    assert isinstance(node.operator, LatestValueSink)
    assert node.operator.descriptor.namespace_type is None
    assert window_of(sink("sensor")) is None
    assert window_of(sink("shift", "window")) == SinkWindow(column="window", is_key=True)
    assert window_of(sink("sensor", "span")) is None


def test_another_interval_in_the_key_is_kept_unless_the_program_says_for_how_long() -> None:
    kept = window_of(sink("sensor", "shift"))
    assert kept == SinkWindow(column="shift", is_key=True, has_watermark=False)
    assert not kept.evicts
    retained = window_of(sink("sensor", "shift", retain=timedelta(minutes=1)))
    assert retained == SinkWindow(column="shift", is_key=True, retain_ms=60_000)
    # Of two it is not known which one ends.
    assert window_of(sink("shift", "window", watermark=())) is None


@pytest.mark.parametrize(
    ("retain", "retain_ms"),
    [
        (None, 0),
        (Duration.of_millis(0), 0),
        (Duration.of_hours(1), 3_600_000),
        (timedelta(seconds=1), 1000),
        (Time.days(1), 86_400_000),
        ("forever", None),
    ],
)
def test_values_are_kept_until_the_end_of_their_window_or_longer(
    retain: Any, retain_ms: int | None
) -> None:
    for node in (sink("sensor", window="window", retain=retain), sink("window", retain=retain)):
        found = window_of(node)
        assert found is not None
        assert found.retain_ms == retain_ms
        assert found.evicts == (retain_ms is not None)


@pytest.mark.parametrize(
    ("keys", "arguments", "said"),
    [
        ("sensor", {"window": "hour"}, "column 'hour' does not exist"),
        ("sensor", {"window": 60}, "window is the name of a column, not 60"),
        ("sensor", {"window": "count"}, "of type bigint, but windows are rows of the timestamps"),
        ("sensor", {"window": "range"}, "functions.window"),
        ("sensor", {"window": "span"}, "make one with struct"),
        ("sensor window", {"window": "window"}, "is part of the key, too: leave window out"),
        ("sensor", {"retain": "forever"}, "the key has no windows: name the column"),
        ("window shift", {"retain": Time.days(1), "watermark": ()}, "the key has 2 windows"),
        ("window", {"retain": 60}, "retain is a Duration .* or 'forever', not 60"),
        ("window", {"retain": "always"}, "not 'always'"),
        ("window", {"retain": timedelta(-1)}, "retain is negative"),
    ],
)
def test_what_is_no_window_or_no_time_is_refused(
    keys: str, arguments: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidRequestError, match=rf"as_queryable_state\('counts'\).*{said}"):
        sink(*keys.split(), **arguments)


def test_elements_that_are_reduced_have_no_windows() -> None:
    sensors = Types.ROW_NAMED(["sensor"], [Types.STRING()])
    total = ReducingStateDescriptor("counts", max, sensors)
    said = r"use key_by.*remove window"
    with pytest.raises(InvalidRequestError, match=said):
        sink("sensor", descriptor=total, window="window")
    with pytest.raises(InvalidRequestError, match=said):
        sink("sensor", "window", descriptor=total, retain="forever")
    assert isinstance(sink("sensor", "window", descriptor=total).operator, ReducingSink)


def test_these_sinks_need_no_batches_of_their_own() -> None:
    assert not needs_clock(sink("sensor", window="window").operator)


def test_windows_that_nothing_removes_are_warned_of_with_the_cure() -> None:
    for node in (
        sink("sensor", window="window", watermark=()),
        sink("sensor", "window", watermark=()),
        sink("sensor", "window", watermark=(), retain=Duration.of_hours(1)),
    ):
        warning = window_warning(node)
        assert warning is not None
        assert "queryable state 'counts': its windows are never removed" in warning
        assert "no column of its stream has a watermark: call withWatermark" in warning
    warning = window_warning(sink("sensor", "shift"))
    assert warning is not None
    assert "the window 'shift' in the key is not of the column that has the watermark" in warning
    assert "retain=Duration.of_hours(1)" in warning


def test_windows_that_are_removed_or_kept_on_purpose_are_not_warned_of() -> None:
    for node in (
        sink("sensor", watermark=()),
        sink("sensor", window="window"),
        sink("sensor", window="shift"),
        sink("sensor", "window"),
        sink("sensor", "shift", retain=Duration.of_hours(1)),
        sink("sensor", window="window", watermark=(), retain="forever"),
        sink("sensor", "window", watermark=(), retain="forever"),
    ):
        assert window_warning(node) is None


def test_output_modes_in_which_removal_makes_no_sense_are_warned_of() -> None:
    node = sink("sensor", window="window")
    for mode, said in (("append", "emits a window when the watermark"), ("Complete", "come back")):
        warning = window_warning(node, mode)
        assert warning is not None
        assert said in warning
    later = sink("sensor", window="window", retain=Duration.of_hours(1))
    assert window_warning(later, "append") is None


def test_a_key_with_a_window_apart_has_one_row_of_each_group() -> None:
    grouping = Grouping(("sensor", "window"), {"sensor": 0, "window": 1})
    assert order_warning(sink("sensor", window="window", grouping=grouping)) is None
    warning = order_warning(sink("sensor", grouping=grouping))
    assert warning is not None
    assert "window='window' keeps one for each window" in warning
