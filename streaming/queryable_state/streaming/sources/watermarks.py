"""Assignment of timestamps and watermarks to a stream."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from queryable_state.streaming.graph.nodes import (
    OperatorNode,
    SourceNode,
    TransformNode,
    WatermarkNode,
    upstream_first,
)
from queryable_state.streaming.runtime.columns.event_time import EVENT_TIME_COLUMN
from queryable_state.streaming.runtime.stateless.steps import Emits, Step
from queryable_state.streaming.sources.watermark_strategy import WatermarkStrategy
from queryable_state.wire.errors import InvalidRequestError, Reason

if TYPE_CHECKING:
    from queryable_state.streaming.graph.nodes import StreamNode
    from queryable_state.streaming.sources.watermark_strategy import TimestampAssigner


def watermarked(node: StreamNode, strategy: object) -> StreamNode:
    """The stream with the timestamps and the watermark of a strategy; the stream itself if the
    strategy assigns neither.

    Raises InvalidRequestError if the stream is the output of a stateful operator, has a watermark
    already, or has no timestamps and the strategy no assigner.
    """
    if not isinstance(strategy, WatermarkStrategy):
        raise InvalidRequestError(
            "a watermark strategy is made by WatermarkStrategy.for_monotonous_timestamps() or "
            f"for_bounded_out_of_orderness(duration), but this is {strategy!r}"
        )
    delay_ms = strategy.delay_ms
    if delay_ms is None:
        return node if strategy.assigner is None else _timed(node, strategy.assigner)
    _check_place(node)
    if strategy.assigner is not None:
        node = _timed(node, strategy.assigner)
    if not node.columns.timestamps:
        raise InvalidRequestError(
            "the elements have no timestamps: add with_timestamp_assigner(...) to the watermark "
            "strategy"
        )
    return WatermarkNode(
        upstream=node,
        delay_ms=delay_ms,
        columns=node.columns,
        has_idleness=strategy.has_idleness,
    )


def without_watermark(node: StreamNode) -> StreamNode:
    """The input stream of `assign_timestamps_and_watermarks`: the same elements, no watermark."""
    while isinstance(node, WatermarkNode) or (
        isinstance(node, TransformNode) and node.step.emits is Emits.TIMED
    ):
        (node,) = node.upstreams
    return node


def _timed(node: StreamNode, assigner: TimestampAssigner) -> TransformNode:
    """The stream with the timestamps of an assigner."""
    columns = node.columns
    step = Step(function=assigner.extract_timestamp, emits=Emits.TIMED, takes_context=True)
    return TransformNode(
        upstreams=(node,),
        kind="assign_timestamps",
        step=step,
        output_type=columns.element_type(columns.names, "assign_timestamps_and_watermarks"),
        columns=replace(columns, event_time=EVENT_TIME_COLUMN),
    )


def _check_place(node: StreamNode) -> None:
    above = upstream_first([node])
    for operator in above:
        if isinstance(operator, OperatorNode):
            raise InvalidRequestError(
                "assign_timestamps_and_watermarks: the stream is the output of the stateful "
                f"operator {operator.name!r}, but Spark derives the watermark before the operators "
                "run: assign timestamps and watermarks before it; its outputs keep the timestamps",
                reason=Reason.UNSUPPORTED,
            )
    if any(
        isinstance(each, WatermarkNode) or (isinstance(each, SourceNode) and each.has_watermark)
        for each in above
    ):
        raise InvalidRequestError(
            "assign_timestamps_and_watermarks: the stream has a watermark already, and Spark does "
            "not redefine one: remove the other strategy, or withWatermark from the DataFrame",
            reason=Reason.UNSUPPORTED,
        )
