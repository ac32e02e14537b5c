"""Data streams: elements, keyed elements, and the operators on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from queryable_state.streaming.graph.nodes import OperatorNode, TransformNode
from queryable_state.streaming.graph.unkeyed_input import unkeyed_input
from queryable_state.streaming.operator_handles import StatefulOperator
from queryable_state.streaming.ordering import EVENT_TIME, order_columns
from queryable_state.streaming.runtime.operators.operators import KeyedProcess
from queryable_state.streaming.sinks.keyed_elements import KeyedElements
from queryable_state.streaming.sinks.stream_sinks import StreamSinks
from queryable_state.streaming.stateless.functions import (
    FilterFunction,
    FlatMapFunction,
    MapFunction,
)
from queryable_state.streaming.stateless.side_output_node import side_output_node
from queryable_state.streaming.streams.broadcast_streams import (
    BroadcastConnectedStream,
    BroadcastStream,
)
from queryable_state.streaming.streams.connected_streams import (
    ConnectedStreams,
    KeyedConnectedStreams,
)
from queryable_state.streaming.streams.dataframes.dataframe_methods import DataFrameMethods
from queryable_state.streaming.streams.keyed_functions import KeyedStep
from queryable_state.streaming.streams.keyed_input import KeyedInput
from queryable_state.streaming.streams.keyed_operators import KeyedOperators
from queryable_state.streaming.streams.keys import keyed
from queryable_state.streaming.streams.multiple_inputs import union_node
from queryable_state.streaming.streams.partitioning import Partitioning
from queryable_state.streaming.streams.queryable_sinks import QueryableSinks
from queryable_state.streaming.streams.refused_on_keyed import RefusedOnKeyedStreams
from queryable_state.streaming.streams.steps import result_type, step_of
from queryable_state.streaming.streams.stream_options import StreamOptions
from queryable_state.streaming.streams.transformations import Transformations
from queryable_state.streaming.streams.windowed.all_windowing import AllWindowing
from queryable_state.streaming.streams.windowed.windowing import Windowing
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from queryable_state.streaming.descriptors import MapStateDescriptor
    from queryable_state.streaming.graph.nodes import StreamNode
    from queryable_state.streaming.ordering import DefaultOrder, OrderBy
    from queryable_state.streaming.runtime.stateless.steps import Step
    from queryable_state.streaming.sources.watermark_strategy import WatermarkStrategy
    from queryable_state.streaming.stateless.functions import ProcessFunction
    from queryable_state.streaming.stateless.output_tag import OutputTag
    from queryable_state.wire.schema.types import TypeInfo


class DataStream(
    StreamOptions,
    StreamSinks,
    Transformations["DataStream"],
    Partitioning["DataStream"],
    AllWindowing["OperatorStream"],
    DataFrameMethods["DataStream"],
):
    """A stream of elements; created by an environment or by an operator on another stream."""

    def process(self, func: ProcessFunction, output_type: object = None) -> DataStream:
        """Runs a function that may emit side outputs over the elements."""
        return self._process(func, output_type)

    def get_side_output(self, output_tag: OutputTag) -> DataStream:
        """The values that the process function of this stream emits with `yield tag, value`."""
        side = side_output_node(self._node, output_tag, self.get_name())
        return DataStream(self._environment, side)

    def key_by(
        self,
        *keys: Any,
        key_type: object = None,
        order_by: OrderBy | DefaultOrder | None = EVENT_TIME,
    ) -> KeyedStream:
        """Partitions the stream by key.

        `key_by("a", "b")` takes columns: one column is a bare key, several form a row. Integers
        are positions of columns or of the fields of a tuple. `key_by(function, key_type)` takes a
        deterministic Python function from an element to its key, or a `KeySelector`. Without
        `key_type` the type is that of the annotation, or of the fields that the function selects,
        or of the first element of a collection; else the key is pickled, and cannot be queried.

        `order_by` is the order of a key's rows within each batch: a column, `("ts", "desc")`, or a
        list of these; `window.end` names a field of a column. As in Spark, null sorts before every
        value and NaN after every number; `desc` is the reverse. Rows that are equal in all columns
        are ordered by input partition number, then by position in the partition, so a replayed
        batch has the same order. The order does not span batches.

        The default `order_by` is the event time of the elements, if they have one, also behind a
        `map`. Otherwise, or with `order_by=None`, rows are in arrival order: **rows of one Kafka
        partition or one file split keep their order; rows of different ones interleave in any
        order**. `aggregate_sum`, `aggregate_min` and `aggregate_max` ignore the order.
        """
        order = order_columns(order_by, self._node.columns, "order_by")
        node, selector = keyed(self._node, keys, key_type)
        read = KeyedInput(self._environment, node, selector, self._node.columns, order)
        return KeyedStream(read, self)

    @overload
    def broadcast(self) -> DataStream: ...
    @overload
    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> BroadcastStream: ...

    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor | None = None,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> DataStream | BroadcastStream:
        """A stream whose elements reach every subtask of the operators it is connected with.

        The descriptors are those of the broadcast states that `process_broadcast_element` writes.
        Without one, the result is a stream of which every partition has every element.
        """
        if broadcast_state_descriptor is None:
            return self._broadcast()
        states = (broadcast_state_descriptor, *other_broadcast_state_descriptors)
        return BroadcastStream(self._node, states)

    def union(self, *streams: DataStream | KeyedStream) -> DataStream:
        """The elements of this stream and the others, which have the same type; in no order."""
        nodes = [self._node, *(_elements(stream, "union")._node for stream in streams)]
        return DataStream(self._environment, union_node(nodes))

    @overload
    def connect(
        self, ds: DataStream | KeyedStream
    ) -> ConnectedStreams[DataStream, OperatorStream]: ...
    @overload
    def connect(self, ds: BroadcastStream) -> BroadcastConnectedStream[OperatorStream]: ...

    def connect(
        self, ds: DataStream | KeyedStream | BroadcastStream
    ) -> ConnectedStreams[DataStream, OperatorStream] | BroadcastConnectedStream[OperatorStream]:
        """Connects the stream with another one, so that one function processes both.

        The connected streams have no keys, also if the other one has: call `key_by` on them.
        """
        if isinstance(ds, BroadcastStream):
            stream = unkeyed_input(self._node, "connect")
            return BroadcastConnectedStream(self._environment, stream, ds, OperatorStream)
        other = _elements(ds, "connect")
        return ConnectedStreams(
            (self._node, other._node),
            self._stream_of,
            lambda first, second, **keys: self.key_by(first, **keys).connect(
                other.key_by(second, **keys)
            ),
        )

    def _stream_of(self, node: StreamNode) -> DataStream:
        if isinstance(node, OperatorNode):
            return OperatorStream(self._environment, self._environment._add_operator(node))
        if isinstance(node, TransformNode):
            self._environment._add_function(node)
        return DataStream(self._environment, node)

    def _operator_stream(self, node: OperatorNode) -> OperatorStream:
        return OperatorStream(self._environment, node)


class KeyedStream(
    RefusedOnKeyedStreams,
    QueryableSinks,
    KeyedElements[DataStream],
    KeyedOperators["OperatorStream"],
    Windowing["OperatorStream"],
):
    """A stream partitioned by key; created by `DataStream.key_by`."""

    def __init__(self, read: KeyedInput, source: DataStream) -> None:
        self._input = read
        self._source = source

    @overload
    def connect(self, ds: KeyedStream) -> KeyedConnectedStreams[OperatorStream]: ...
    @overload
    def connect(self, ds: DataStream) -> ConnectedStreams[DataStream, OperatorStream]: ...
    @overload
    def connect(self, ds: BroadcastStream) -> BroadcastConnectedStream[OperatorStream]: ...

    def connect(
        self, ds: KeyedStream | DataStream | BroadcastStream
    ) -> (
        KeyedConnectedStreams[OperatorStream]
        | ConnectedStreams[DataStream, OperatorStream]
        | BroadcastConnectedStream[OperatorStream]
    ):
        """Connects the stream with another keyed stream, so that both share the state of each key,
        or with a broadcast stream.

        Streams that are connected with one without keys have no keys: call `key_by` on them.
        """
        if isinstance(ds, BroadcastStream):
            own = self._input
            stream = own.whole("connect")
            return BroadcastConnectedStream(own.environment, stream, ds, OperatorStream)
        if not isinstance(ds, KeyedStream):
            return self._source.connect(ds)
        return KeyedConnectedStreams(self._input, ds._input, OperatorStream)

    def map(
        self, func: MapFunction | Callable[[Any], Any], output_type: object = None
    ) -> DataStream:
        """Maps each element to one element; a `MapFunction` may use keyed state."""
        step = step_of(func, MapFunction)
        if not step.methods:
            return self._source.map(func, output_type)
        return self._stepped("map", step, result_type(step, output_type, "map"))

    def flat_map(
        self,
        func: FlatMapFunction | Callable[[Any], Iterable[Any] | None],
        output_type: object = None,
    ) -> DataStream:
        """Maps each element to any number of elements; a `FlatMapFunction` may use keyed state."""
        step = step_of(func, FlatMapFunction)
        if not step.methods:
            return self._source.flat_map(func, output_type)
        return self._stepped("flat_map", step, result_type(step, output_type, "flat_map"))

    def filter(self, func: FilterFunction | Callable[[Any], Any]) -> DataStream:
        """Keeps the elements for which the function returns true; a `FilterFunction` may use keyed
        state."""
        step = step_of(func, FilterFunction)
        if not step.methods:
            return self._source.filter(func)
        return self._stepped("filter", step, self._input.element_type("filter"))

    def key_by(
        self,
        *keys: Any,
        key_type: object = None,
        order_by: OrderBy | DefaultOrder | None = EVENT_TIME,
    ) -> KeyedStream:
        """Partitions the elements by another key; see `DataStream.key_by`."""
        return self._source.key_by(*keys, key_type=key_type, order_by=order_by)

    def union(self, *streams: DataStream | KeyedStream) -> DataStream:
        """The elements of this stream and the others, without their keys."""
        return self._source.union(*streams)

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream:
        """The elements with timestamps and a watermark, without their keys."""
        return self._source.assign_timestamps_and_watermarks(watermark_strategy)

    def _stepped(self, kind: str, step: Step, output: TypeInfo) -> OperatorStream:
        return self._stream(kind, KeyedProcess(KeyedStep(step)), output)

    def _operator_stream(self, node: OperatorNode) -> OperatorStream:
        return OperatorStream(self._input.environment, node)


class OperatorStream(StatefulOperator, DataStream):
    """The output of a stateful operator."""

    _node: OperatorNode


def _elements(stream: object, purpose: str) -> DataStream:
    """The stream without keys; raises InvalidRequestError, naming `purpose`, if it is no stream."""
    if isinstance(stream, KeyedStream):
        return stream._source
    if not isinstance(stream, DataStream):
        raise InvalidRequestError(f"{purpose} takes streams, not {stream!r}")
    return stream
