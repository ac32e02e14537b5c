"""Warnings about the queryable sinks of a job, logged when it starts."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from queryable_state.streaming.order_checks import order_warning
from queryable_state.streaming.runtime.operators.operators import LatestValueSink
from queryable_state.streaming.streams.windowed.sink_windows import has_watermark

if TYPE_CHECKING:
    from queryable_state.streaming.graph.job_graph import JobGraph
    from queryable_state.streaming.graph.nodes import OperatorNode

_log = logging.getLogger("queryable_state.streaming")


def warn_of_sinks(graph: JobGraph, output_mode: str = "update") -> None:
    """Logs a warning for each sink that keeps an arbitrary row of a key, and for each that keeps
    windows without end or removes them too early. `output_mode` is that of the Spark query."""
    for node in graph.operators:
        for warning in (order_warning(node), window_warning(node, output_mode)):
            if warning:
                _log.warning("%s", warning)


def window_warning(node: OperatorNode, output_mode: str = "update") -> str | None:
    """The warning for a sink with windows; None if there is none."""
    sink = node.operator
    if not isinstance(sink, LatestValueSink) or sink.window is None:
        return None
    window, name = sink.window, sink.descriptor.queryable_name
    if window.retain_ms is None:
        return None
    about = f"operator {node.name!r}, queryable state {name!r}"
    grows = f"{about}: its windows are never removed, so the state grows without end, because"
    if not has_watermark(node.inputs[0].upstream):
        return (
            f"{grows} no column of its stream has a watermark: call withWatermark on the DataFrame "
            "before groupBy(window(...)), or assign_timestamps_and_watermarks on a stream; "
            f"as_queryable_state({name!r}, retain='forever') keeps them without this warning"
        )
    if not window.has_watermark:
        return (
            f"{grows} the window {window.column!r} in the key is not of the column that has the "
            f"watermark: give as_queryable_state({name!r}, retain=Duration.of_hours(1)) to remove "
            "a window when the watermark is so far past its end, or retain='forever' to keep them "
            "without this warning"
        )
    mode = output_mode.lower()
    if mode == "append" and window.retain_ms == 0:
        return (
            f"{about}: in append mode Spark emits a window when the watermark has passed its end, "
            "so its value is removed with the next batch: start the job in update mode, or give "
            f"as_queryable_state({name!r}, retain=Duration.of_hours(1))"
        )
    if mode == "complete":
        return (
            f"{about}: in complete mode Spark emits all windows with each batch, so windows that "
            "are removed come back: start the job in update mode, or give "
            f"as_queryable_state({name!r}, retain='forever')"
        )
    return None
