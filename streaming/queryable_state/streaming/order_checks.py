"""Warnings about latest-value sinks whose result depends on an undefined row order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.settings.environment_settings import joined
from queryable_state.streaming.graph.nodes import FrameNode, OperatorNode, origin_of
from queryable_state.streaming.runtime.operators.operators import LatestValueSink
from queryable_state.streaming.runtime.operators.sink_window import is_window

if TYPE_CHECKING:
    from queryable_state.streaming.graph.keys import KeySelector
    from queryable_state.streaming.graph.origin import Grouping


def order_warning(node: OperatorNode) -> str | None:
    """The warning for an operator that keeps an arbitrary row of a key; None if there is none."""
    sink = node.operator
    if not isinstance(sink, LatestValueSink) or sink.latest_by:
        return None
    (read,) = node.inputs
    keys = read.keys
    assert keys is not None, "a queryable sink is keyed"
    upstream = read.upstream
    if isinstance(upstream, OperatorNode):
        if read.order or (upstream.keys and keys.columns == upstream.keys.columns):
            return None
        return _unordered(node, sink, f"the subtasks of operator {upstream.name!r}")
    origin = origin_of(upstream)
    if origin.grouping is not None:
        columns = {*keys.columns, *node.window_columns}
        if not keys.is_computed and origin.grouping.distinguished_by(columns):
            return None
        return _several_groups(node, sink, keys, origin.grouping)
    if read.order:
        return None
    if isinstance(upstream, FrameNode) and len(upstream.upstreams) > 1:
        return _unordered(node, sink, f"the streams of its {upstream.kind}")
    return (
        _unordered(node, sink, f"the partitions of {joined(origin.sources)}")
        if origin.sources
        else None
    )


def _unordered(node: OperatorNode, sink: LatestValueSink, parts: str) -> str:
    name = sink.descriptor.queryable_name
    return (
        f"operator {node.name!r} keeps the last row of each key in the queryable state {name!r}, "
        f"but its rows have no order: {parts} are read in parallel, so any row of a batch may be "
        f"the last. as_queryable_state({name!r}, latest_by=<column>) keeps the row with the "
        "greatest value over all batches; key_by(..., order_by=<column>) orders the rows within "
        "each batch"
    )


def _several_groups(
    node: OperatorNode, sink: LatestValueSink, keys: KeySelector, grouping: Grouping
) -> str:
    name = sink.descriptor.queryable_name
    key = "computed by a function" if keys.is_computed else joined(keys.columns)
    candidates = grouping.columns_beside(keys.columns)
    column = repr(candidates[0]) if len(candidates) == 1 else "<column>"
    types = node.inputs[0].upstream.columns.types
    windows = [each for each in candidates if is_window(types.get(each))]
    by_window = f"window={windows[0]!r} keeps one for each window; " if windows else ""
    return (
        f"operator {node.name!r} keeps one row for each key in the queryable state {name!r}, but a "
        f"key has several: the rows are grouped by {joined(grouping.expressions)}, the key is "
        f"{key}. It is arbitrary which group's row is kept. "
        f"as_queryable_state({name!r}, latest_by={column}) keeps the row with the greatest value "
        f"over all batches; {by_window}or add the other columns to key_by"
    )
