"""Data streams: elements, keyed elements, and the operators on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming.functions import KeyedProcessFunction, ReducingStateDescriptor
from queryable_state.streaming.graph.keys import KeySelector
from queryable_state.streaming.graph.nodes import OperatorNode, SinkNode
from queryable_state.streaming.operator_handles import (
    DataStreamSink,
    QueryableStateStream,
    StatefulOperator,
)
from queryable_state.streaming.ordering import EVENT_TIME, order_columns
from queryable_state.streaming.runtime.operators.operators import (
    AggregateKind,
    KeyedBatchProcess,
    KeyedProcess,
)
from queryable_state.streaming.runtime.operators.operators import Reduce as ReduceOperator
from queryable_state.streaming.streams.connected_streams import KeyedConnectedStreams
from queryable_state.streaming.streams.keyed_input import KeyedInput
from queryable_state.streaming.streams.multiple_inputs import initial_input, union_node
from queryable_state.streaming.vectorised.functions import KeyedBatchProcessFunction
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.schema.types import type_info

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame

    from queryable_state.streaming.descriptors import ValueStateDescriptor
    from queryable_state.streaming.functions import ReduceFunction
    from queryable_state.streaming.graph.nodes import StreamNode
    from queryable_state.streaming.operator_handles import StreamEnvironment
    from queryable_state.streaming.ordering import DefaultOrder, OrderBy
    from queryable_state.wire.schema.types import TypeInfo


class DataStream:
    """A stream of elements; created by an environment or by an operator on another stream."""

    def __init__(self, environment: StreamEnvironment, node: StreamNode) -> None:
        self._environment = environment
        self._node = node

    def key_by(
        self,
        *keys: Any,
        key_type: object = None,
        order_by: OrderBy | DefaultOrder | None = EVENT_TIME,
    ) -> KeyedStream:
        """Partitions the stream by key.

        `key_by("a", "b")` takes columns: one column is a bare key, several form a row.
        `key_by(function, key_type)` takes a deterministic Python function from an element to its
        key.

        `order_by` is the order of a key's rows within each batch: a column, `("ts", "desc")`, or a
        list of these; `window.end` names a field of a column. As in Spark, null sorts before every
        value and NaN after every number; `desc` is the reverse. Rows that are equal in all columns
        are ordered by input partition number, then by position in the partition, so a replayed
        batch has the same order. The order does not span batches.

        The default `order_by` is the event-time column of the DataFrame's watermark, if there is
        one. Otherwise, or with `order_by=None`, rows are in arrival order: **rows of one Kafka
        partition or one file split keep their order; rows of different ones interleave in any
        order**. `sum`, `min` and `max` ignore the order.
        """
        columns = self._node.columns
        if keys and all(isinstance(key, str) for key in keys) and key_type is None:
            selector = KeySelector.by_columns(keys, columns)
        elif len(keys) in (1, 2) and callable(keys[0]):
            declared = keys[1] if len(keys) == 2 else key_type
            if declared is None:
                raise InvalidRequestError(
                    "key_by(function) needs the key's type, as in key_by(function, Types.STRING())"
                )
            selector = KeySelector.by_function(keys[0], type_info(declared), columns)
        else:
            raise InvalidRequestError(
                "key_by takes column names, or a Python function and a key type, "
                f"not {', '.join(repr(key) for key in keys) or 'nothing'}"
            )
        order = order_columns(order_by, columns, "order_by")
        return KeyedStream(KeyedInput(self._environment, self._node, selector, order))

    def union(self, *streams: DataStream) -> DataStream:
        """The elements of this stream and the others, which have the same type; in no order."""
        return DataStream(self._environment, union_node([self._node, *_nodes_of(streams)]))

    def transform(self, function: Callable[[DataFrame], DataFrame]) -> DataStream:
        """Applies a function of DataFrames, as `DataFrame.transform` does: `select`, `where`, joins
        with static DataFrames.

        The function must be deterministic and keep no state between batches: Spark's own
        aggregations, `dropDuplicates`, joins of streams and limits are refused.
        """
        return DataStream(self._environment, self._environment._transformed(self._node, function))

    def lookup_join(
        self, dataframe: DataFrame, on: str | list[str], how: str = "left"
    ) -> DataStream:
        """Joins each element with a static DataFrame (`inner` or `left`) by columns of both.

        Spark reads the DataFrame in each batch; `cache()` it if that is expensive.
        """
        if dataframe.isStreaming or how not in ("inner", "left"):
            raise InvalidRequestError(
                f"lookup_join takes a static DataFrame and how='inner' or 'left', not {how!r} and "
                f"{dataframe!r}; connect() joins two streams"
            )
        return self.transform(lambda stream: stream.join(dataframe, on, how))

    def get_type(self) -> TypeInfo:
        """The type of the elements: a row of the columns, or the type of the only column."""
        return self._node.columns.element_type(self._node.columns.names, "get_type")

    def to_dataframe(self) -> DataFrame:
        """The stream as an ordinary streaming DataFrame.

        The caller starts it with `writeStream`, with any sink and trigger; then its state is
        queryable. `env.execute` does not run it.
        """
        return self._environment._dataframe_of(self._node)

    def print(self) -> DataStreamSink:
        """Prints each element on the driver's standard output."""
        return self.add_sink(_print_rows).name("print")

    def add_sink(self, function: Callable[[DataFrame, int], object]) -> DataStreamSink:
        """Calls a function with the DataFrame and the id of each batch, as `foreachBatch` does.

        The function runs in the driver, and runs again when Spark replays a batch. Threads that
        it starts must be `pyspark.InheritableThread`s.
        """
        if not callable(function):
            raise InvalidRequestError(
                f"a sink is a function of a DataFrame and a batch id, not {function!r}"
            )
        node = SinkNode(upstream=self._node, write=function)
        self._environment._add_sink(node)
        return DataStreamSink(node)

    def sink_to(self, function: Callable[[DataFrame, int], object]) -> DataStreamSink:
        """The same as `add_sink`."""
        return self.add_sink(function)


class KeyedStream:
    """A stream partitioned by key; created by `DataStream.key_by`."""

    def __init__(self, read: KeyedInput) -> None:
        self._input = read

    def connect(self, other: KeyedStream) -> KeyedConnectedStreams[OperatorStream]:
        """Connects the stream with another keyed stream; both share the state of each key."""
        if not isinstance(other, KeyedStream):
            raise InvalidRequestError(
                f"connect of a keyed stream takes another keyed stream, not {other!r}: call "
                "key_by() on it"
            )
        return KeyedConnectedStreams(self._input, other._input, OperatorStream)

    def process(
        self,
        function: KeyedProcessFunction,
        output_type: object,
        *,
        initial_state: DataFrame | None = None,
    ) -> OperatorStream:
        """Runs a function with state over the elements.

        `output_type` is a row (`Types.ROW_NAMED`, a DDL string of columns), whose fields become
        the output columns, or another type for the only output column, `value`.

        `initial_state` is a static DataFrame with the key columns of the stream. In the first batch
        of a new job, and before its elements, `handle_initial_state` gets each of its rows. A job
        that continues from a checkpoint or savepoint does not read it.
        """
        if not isinstance(function, KeyedProcessFunction):
            raise InvalidRequestError(
                f"process takes an instance of KeyedProcessFunction, not {function!r}"
            )
        output = type_info(output_type)
        operator = KeyedProcess(function)
        if initial_state is None:
            return self._stream(self._input.operator("process", operator, output))
        initial = initial_input(initial_state, self._input.keys, function)
        return self._stream(self._input.operator("process", operator, output, before=(initial,)))

    def process_batch(
        self, function: KeyedBatchProcessFunction, output_type: object
    ) -> OperatorStream:
        """Runs a function with state over Arrow columns of the elements.

        The function is called with many rows of many keys at once; `output_type` is as in
        `process`.
        """
        if not isinstance(function, KeyedBatchProcessFunction):
            raise InvalidRequestError(
                f"process_batch takes an instance of KeyedBatchProcessFunction, not {function!r}"
            )
        output = type_info(output_type)
        return self._stream(
            self._input.operator("process-batch", KeyedBatchProcess(function), output)
        )

    def reduce(self, function: ReduceFunction[Any] | Callable[[Any, Any], Any]) -> OperatorStream:
        """Reduces the elements of each key; emits the reduced value for each element."""
        descriptor = ReducingStateDescriptor("reduce", function, self._input.element_type("reduce"))
        return self._stream(
            self._input.operator("reduce", ReduceOperator(descriptor), descriptor.value_type)
        )

    def sum(self, *columns: str, queryable_name: str | None = None) -> OperatorStream:
        """Sums columns by key, in the columns' own types; nulls are ignored.

        Like `min` and `max` it emits, per batch, one row for each key of the batch: the key
        columns, then the sums. With `queryable_name` the state itself can be queried.
        """
        return self._stream(self._input.aggregate(AggregateKind.SUM, columns, queryable_name))

    def min(self, *columns: str, queryable_name: str | None = None) -> OperatorStream:
        """Computes minima of columns by key; see `sum`."""
        return self._stream(self._input.aggregate(AggregateKind.MIN, columns, queryable_name))

    def max(self, *columns: str, queryable_name: str | None = None) -> OperatorStream:
        """Computes maxima of columns by key; see `sum`."""
        return self._stream(self._input.aggregate(AggregateKind.MAX, columns, queryable_name))

    def as_queryable_state(
        self,
        name: str,
        descriptor: ValueStateDescriptor | ReducingStateDescriptor | None = None,
        *,
        latest_by: OrderBy | None = None,
    ) -> QueryableStateStream:
        """Makes the last element of each key, or all of them reduced, queryable as `name`.

        Without a descriptor the whole element is stored. A descriptor with a row type selects the
        columns that the row names; with another type it selects the only column that is neither a
        key nor an order column.

        `latest_by` (one or several columns, as `order_by` of `key_by`) defines the last element:
        the one with the greatest value over all batches, so a late row changes nothing. Of equal
        elements the later batch's wins; within a batch, the last by `order_by`, then by input
        partition. Null is smaller than every value.

        **Without `latest_by` the last element is the last to arrive**: the last of the newest
        batch, by the order of `key_by`. If a batch is read from several files or Kafka partitions
        and `key_by` has no order, it may be any element of the batch.
        """
        node = self._input.queryable_sink(name, descriptor, latest_by)
        return QueryableStateStream(self._input.environment, node, name)

    def _stream(self, node: OperatorNode) -> OperatorStream:
        return OperatorStream(self._input.environment, node)


class OperatorStream(StatefulOperator, DataStream):
    """The output of a stateful operator."""

    _node: OperatorNode


def _print_rows(batch: DataFrame, batch_id: int) -> None:
    for row in batch.collect():
        print(row, flush=True)  # noqa: T201 - what print() is for


def _nodes_of(streams: Sequence[DataStream]) -> list[StreamNode]:
    for stream in streams:
        if not isinstance(stream, DataStream):
            raise InvalidRequestError(f"union takes streams, not {stream!r}")
    return [stream._node for stream in streams]
