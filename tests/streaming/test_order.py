"""What rows may be ordered by, and the warnings of sinks whose rows have no order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import StructField, StructType, TimestampType

from queryable_state.streaming.descriptors import ValueStateDescriptor
from queryable_state.streaming.functions import ReducingStateDescriptor
from queryable_state.streaming.graph.elements import Columns
from queryable_state.streaming.graph.keys import KeySelector
from queryable_state.streaming.graph.nodes import OperatorInput, OperatorNode, SourceNode
from queryable_state.streaming.graph.origin import Grouping, Origin
from queryable_state.streaming.order_checks import order_warning
from queryable_state.streaming.ordering import EVENT_TIME, order_columns
from queryable_state.streaming.runtime.operators.operators import LatestValueSink, ReducingSink
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.schema.types import Types, type_info

if TYPE_CHECKING:
    from queryable_state.streaming.graph.nodes import StreamNode
    from queryable_state.streaming.runtime.operators.operators import Operator

ROW = type_info(
    "sensor STRING, ts TIMESTAMP, seq INT, window STRUCT<start: TIMESTAMP, end: TIMESTAMP>, "
    "labels MAP<STRING, INT>, tags ARRAY<STRING>, nested STRUCT<m: MAP<STRING, INT>>"
)
COLUMNS = Columns({field.name: field.type for field in ROW.fields})


def order(order_by: Any, columns: Columns = COLUMNS) -> list[tuple[str, bool]]:
    return [(key.name, key.descending) for key in order_columns(order_by, columns, "order_by")]


def test_an_order_is_a_column_or_several_each_in_its_direction() -> None:
    assert order("ts") == [("ts", False)]
    assert order(("ts", "desc")) == [("ts", True)]
    assert order(["ts", ("seq", "desc")]) == [("ts", False), ("seq", True)]
    assert order(("ts", "seq")) == [("ts", False), ("seq", False)]
    assert order([("window.end", "desc"), "window"]) == [("window.end", True), ("window", False)]


@pytest.mark.parametrize(
    ("order_by", "said"),
    [
        ("missing", "column 'missing' does not exist; the columns are: sensor, ts"),
        (["ts", ("absent", "desc")], "column 'absent' does not exist"),
        ("labels", r"'labels' is map<string,int>, which has no order"),
        (("tags", "desc"), "'tags' is array<string>, which has no order"),
        ("nested", "'nested' is struct<m:map<string,int>>, which has no order"),
        ("window.middle", "'window' has no field 'middle'"),
        ("ts.start", "'ts' has no field 'start'"),
        (["ts", "ts"], "'ts' is named twice"),
        ([], r"takes a column name, \(name, 'desc'\), or a list of these, not \[\]"),
        (["ts", 7], "not 7"),
        ([("ts", "down")], r"not \('ts', 'down'\)"),
    ],
)
def test_what_cannot_be_ordered_by_is_refused_by_name(order_by: Any, said: str) -> None:
    with pytest.raises(InvalidRequestError, match=f"order_by.*{said}"):
        order(order_by)


def watermarked(*names: str) -> Columns:
    """Columns of a DataFrame, these with a watermark."""
    fields = [
        StructField(
            name,
            TimestampType(),
            metadata={"spark.watermarkDelayMs": 1000} if name in names else None,
        )
        for name in ("created", "ts")
    ]
    return Columns.of_schema(StructType(fields))


def test_the_event_time_of_a_watermark_is_the_order_unless_another_or_none_is_given() -> None:
    assert order(EVENT_TIME, watermarked("ts")) == [("ts", False)]
    assert order(None, watermarked("ts")) == []
    assert order("created", watermarked("ts")) == [("created", False)]
    assert order(EVENT_TIME, watermarked()) == []
    # Of two event times neither is the order.
    assert order(EVENT_TIME, watermarked("ts", "created")) == []


def test_behind_a_function_the_order_is_that_of_the_internal_column() -> None:
    outputs = Columns.of_output(Types.INT()).with_timestamps_of(watermarked("ts"))
    assert order(EVENT_TIME, outputs) == [("__event_time", False)]
    assert order(None, outputs) == []
    outputs = Columns.of_output(Types.INT()).with_timestamps_of(watermarked())
    assert order(EVENT_TIME, outputs) == []


def queryable(name: str = "last") -> ValueStateDescriptor:
    descriptor = ValueStateDescriptor(name, ROW)
    descriptor.set_queryable(name)
    return descriptor


def node(
    upstream: StreamNode | None = None,
    *keys: str,
    operator: Operator | None = None,
    order_by: Any = None,
    latest_by: Any = None,
    grouping: Grouping | None = None,
    sources: tuple[str, ...] = ("FileSource[/in]",),
) -> OperatorNode:
    frame: Any = None
    if upstream is None:
        upstream = SourceNode(dataframe=frame, columns=COLUMNS, origin=Origin(sources, grouping))
    latest = order_columns(latest_by, COLUMNS, "latest_by")
    return OperatorNode(
        inputs=(
            OperatorInput(
                upstream=upstream,
                keys=KeySelector.by_columns(keys or ("sensor",), COLUMNS),
                value_columns=COLUMNS.names,
                value_type=ROW,
                order=order_columns(order_by, COLUMNS, "order_by"),
            ),
        ),
        kind="queryable-state",
        operator=operator or LatestValueSink.of(queryable(), COLUMNS.names, latest),
        output_type=None,
        columns=COLUMNS,
        given_uid="newest",
    )


def test_a_sink_of_the_last_row_without_an_order_is_named_with_its_source_and_the_cure() -> None:
    warning = order_warning(node())
    assert warning is not None
    assert "operator 'newest'" in warning
    assert "FileSource[/in]" in warning
    assert "as_queryable_state('last', latest_by=<column>)" in warning
    assert "order_by=<column>" in warning


def test_an_order_a_latest_by_or_one_partition_needs_no_warning() -> None:
    assert order_warning(node(order_by="ts")) is None
    assert order_warning(node(latest_by="ts")) is None
    assert order_warning(node(sources=())) is None
    reducing = ReducingStateDescriptor("sum", max, Types.LONG())
    assert order_warning(node(operator=ReducingSink(reducing))) is None


WINDOWS = Grouping(("sensor", "window"), {"sensor": 0, "window": 1})


def test_an_aggregation_keyed_by_less_than_its_groups_is_named_with_both_and_the_cure() -> None:
    # The order of a batch's rows does not make an update of an old window older.
    for order_by in (None, "window"):
        warning = order_warning(node(grouping=WINDOWS, order_by=order_by))
        assert warning is not None
        assert "operator 'newest'" in warning
        assert "grouped by sensor, window, the key is sensor" in warning
        assert "as_queryable_state('last', latest_by='window')" in warning


def test_an_aggregation_keyed_by_its_groups_has_one_row_a_key() -> None:
    assert order_warning(node(None, "sensor", "window", grouping=WINDOWS)) is None
    assert order_warning(node(grouping=WINDOWS, latest_by="window")) is None
    total = Grouping((), {})
    assert order_warning(node(grouping=total)) is None


def test_a_sink_behind_an_operator_is_in_order_only_on_the_same_key() -> None:
    upstream = node()
    assert order_warning(node(upstream)) is None
    warning = order_warning(node(upstream, "seq"))
    assert warning is not None
    assert "the subtasks of operator 'newest'" in warning
    assert order_warning(node(upstream, "seq", order_by="ts")) is None
