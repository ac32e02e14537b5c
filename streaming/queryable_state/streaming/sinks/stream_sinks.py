"""Sinks of a stream, and the elements of a stream in the driver."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from queryable_state.streaming.graph.nodes import SinkNode
from queryable_state.streaming.sinks.collected import CloseableIterator, CollectSink
from queryable_state.streaming.sinks.data_stream_sink import DataStreamSink
from queryable_state.streaming.sinks.sinks import PrintSink
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from queryable_state.streaming.graph.nodes import StreamNode
    from queryable_state.streaming.operator_handles import StreamEnvironment

    Sink = Callable[[DataFrame, int], object]


class StreamSinks:
    """The methods that write the elements of a stream."""

    def __init__(self, environment: StreamEnvironment, node: StreamNode) -> None:
        self._environment = environment
        self._node = node

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Prints each element on the driver's standard output, after the identifier if given."""
        return self.add_sink(PrintSink(self._node.columns, sink_identifier)).name("print")

    def add_sink(self, sink_func: Sink) -> DataStreamSink:
        """Calls a function with the DataFrame and the id of each batch, as `foreachBatch` does.

        The function runs in the driver, and runs again when Spark replays a batch. Threads that
        it starts must be `pyspark.InheritableThread`s. A `SparkSink` writes in a format of Spark.
        """
        if not callable(sink_func):
            raise InvalidRequestError(
                f"a sink is a function of a DataFrame and a batch id, not {sink_func!r}"
            )
        node = SinkNode(upstream=self._node, write=sink_func)
        self._environment._add_sink(node)
        return DataStreamSink(node)

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """The same as `add_sink`."""
        return self.add_sink(sink)

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator | list[Any]:
        """Starts the job with all declared sinks, and iterates over the elements of this stream.

        With `limit` it returns a list of at most that many elements, and cancels the job. A job
        without a name gets a random one and cannot be resumed, so at its end its checkpoints and
        its state are removed; if it has failed, they are kept, and a WARNING names their folder.
        """
        if limit is not None and limit < 1:
            raise InvalidRequestError(f"limit must be at least 1, not {limit}")
        name = job_execution_name or f"DataStream Collect {uuid.uuid4().hex[:8]}"
        sink = CollectSink(self._node.columns)
        self.add_sink(sink).name("collect")
        found = CloseableIterator(
            sink,
            lambda: self._environment.execute_async(name),
            is_named=bool(job_execution_name),
        )
        if limit is None:
            return found
        with found:
            return [element for _, element in zip(range(limit), found, strict=False)]
