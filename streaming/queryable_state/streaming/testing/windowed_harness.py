"""Harness that runs an operator over the windows of a keyed stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from queryable_state.streaming.graph.elements import Columns
from queryable_state.streaming.graph.keys import KeySelector
from queryable_state.streaming.graph.nodes import SourceNode
from queryable_state.streaming.operator_handles import QueryableStateStream
from queryable_state.streaming.streams.keyed_input import KeyedInput
from queryable_state.streaming.streams.windowed.windowed_stream import WindowedStream
from queryable_state.streaming.testing.keyed_harness import KeyedOperatorHarness
from queryable_state.wire.schema.types import type_info

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from queryable_state.streaming.graph.nodes import OperatorNode
    from queryable_state.streaming.operator_handles import StreamEnvironment
    from queryable_state.streaming.windows.assigner import WindowAssigner


class WindowedOperatorHarness(KeyedOperatorHarness):
    """An operator over windows and its state, run batch by batch on lists of rows.

    Elements are rows of all columns of `input_type`. Time moves between batches only:

        harness = WindowedOperatorHarness(
            TumblingEventTimeWindows.of(Time.seconds(10)),
            lambda windowed: windowed.max("degrees"),
            "sensor STRING, ts BIGINT, degrees DOUBLE", key_by="sensor", event_time="ts",
        )
        harness.process([("sensor_1", 1_000, 20.5), ("sensor_1", 9_000, 21.0)])
        assert harness.process_watermark(9_999) == [("sensor_1", 1_000, 21.0)]
    """

    def __init__(
        self,
        assigner: WindowAssigner,
        operator: Callable[[WindowedStream[OperatorNode]], OperatorNode | QueryableStateStream],
        input_type: object,
        *,
        key_by: str | Sequence[str],
        event_time: str = "",
        **options: Any,
    ) -> None:
        """`operator` calls a method of the windowed stream that it gets, such as `reduce`.

        `event_time` is the column with the timestamps of the elements; without it only windows of
        processing time and of counts can be used. `options` are those of `KeyedOperatorHarness`,
        without `output_type`.
        """
        columns = Columns.of_output(type_info(input_type))
        timed = columns.with_internal_time() if event_time else columns
        keys = (key_by,) if isinstance(key_by, str) else tuple(key_by)
        # A source without a DataFrame: the harness passes the rows.
        source = SourceNode(dataframe=cast("Any", None), columns=timed)
        environment = cast("StreamEnvironment", _Environment())
        read = KeyedInput(environment, source, KeySelector.by_columns(keys, columns), timed)
        result = operator(WindowedStream(read, assigner, lambda node: node))
        node = result._node if isinstance(result, QueryableStateStream) else result
        super().__init__(
            node.operator,
            input_type,
            key_by=key_by,
            event_time=event_time,
            output_type=node.output_type,
            **options,
        )


class _Environment:
    """An environment that runs no job."""

    def _add_operator(self, node: OperatorNode) -> OperatorNode:
        return node
