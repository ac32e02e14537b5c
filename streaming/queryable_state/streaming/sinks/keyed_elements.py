"""Sinks and facts of a keyed stream, which are those of its elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pyspark.sql import functions as F

from queryable_state.streaming.graph.elements import Columns
from queryable_state.streaming.graph.nodes import FrameNode
from queryable_state.streaming.sinks.stream_sinks import StreamSinks
from queryable_state.streaming.spark.plan.columns import column
from queryable_state.wire.schema.types import Field, Kind, TypeInfo, Types

if TYPE_CHECKING:
    from pyspark.sql import Column

    from queryable_state.streaming.execution.execution_config import ExecutionConfig
    from queryable_state.streaming.operator_handles import StreamEnvironment
    from queryable_state.streaming.sinks.collected import CloseableIterator
    from queryable_state.streaming.sinks.data_stream_sink import DataStreamSink
    from queryable_state.streaming.sinks.stream_sinks import Sink
    from queryable_state.streaming.streams.keyed_input import KeyedInput

D = TypeVar("D", bound=StreamSinks)


class KeyedElements(Generic[D]):
    """The methods that write the elements of a keyed stream, or describe them; D is the class of
    the stream without its keys."""

    _input: KeyedInput
    _source: D

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Prints each element; see `DataStream.print`."""
        return self._source.print(sink_identifier)

    def add_sink(self, sink_func: Sink) -> DataStreamSink:
        """Calls a function with each batch of the elements; see `DataStream.add_sink`."""
        return self._source.add_sink(sink_func)

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """The same as `add_sink`."""
        return self._source.add_sink(sink)

    def get_type(self) -> TypeInfo:
        """Type of the elements."""
        return self._input.element_type("get_type")

    def get_execution_environment(self) -> StreamEnvironment:
        """The environment of the stream."""
        return self._input.environment

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator | list[Any]:
        """Starts the job, and iterates over `Row(f0=key, f1=element)` of each element.

        See `DataStream.execute_and_collect`.
        """
        collected = StreamSinks(self._input.environment, _with_keys(self._input))
        return collected.execute_and_collect(job_execution_name, limit)

    def get_execution_config(self) -> ExecutionConfig:
        """The execution configuration of the environment."""
        return self._input.environment.get_config()


def _with_keys(read: KeyedInput) -> FrameNode:
    """The stream of rows of a key and an element."""
    keys, elements = read.keys, read.columns
    key_type = Types.PICKLED_BYTE_ARRAY() if keys.is_pickled else keys.value_type
    element = read.element_type("execute_and_collect")
    row = TypeInfo(Kind.ROW, fields=(Field("f0", key_type), Field("f1", element)))
    is_single = len(keys.columns) == 1
    key = column(keys.columns[0]) if is_single else _struct(keys.columns, key_type)
    value = column(elements.names[0]) if elements.bare else _struct(elements.names, element)
    return FrameNode(
        upstreams=(read.node,),
        kind="key_by",
        apply=lambda frame: frame.select(key.alias("f0"), value.alias("f1")),
        columns=Columns.of_output(row),
    )


def _struct(names: tuple[str, ...], row: TypeInfo) -> Column:
    fields = zip(names, row.fields, strict=True)
    return F.struct(*(column(name).alias(field.name) for name, field in fields))
