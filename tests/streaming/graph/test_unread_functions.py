"""A function that nothing reads is named when its job starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming.graph.declared_job import DeclaredJob
from queryable_state.streaming.graph.elements import Columns
from queryable_state.streaming.graph.nodes import SinkNode, SourceNode, TransformNode
from queryable_state.wire.schema.types import Types

if TYPE_CHECKING:
    import pytest

COLUMNS = Columns({"value": Types.LONG()}, bare=True)


def function(upstream: Any, name: str) -> TransformNode:
    nothing: Any = None
    return TransformNode(
        upstreams=(upstream,),
        kind="map",
        step=nothing,
        output_type=Types.LONG(),
        columns=COLUMNS,
        given_name=name,
    )


def test_functions_without_a_sink_are_named(caplog: pytest.LogCaptureFixture) -> None:
    frame: Any = None
    source = SourceNode(dataframe=frame, columns=COLUMNS)
    read = function(source, "read")
    unread = function(read, "forgotten")
    sink = SinkNode(upstream=read, write=lambda batch, batch_id: None)
    DeclaredJob(sinks=[sink], functions=[read, unread]).checked_graph("job")
    assert "do not run: forgotten" in caplog.text
    assert "read," not in caplog.text
