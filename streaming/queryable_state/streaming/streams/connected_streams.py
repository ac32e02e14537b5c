"""Two connected streams, whose elements one function processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from queryable_state.streaming.co_functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FlatMapBoth,
    KeyedCoProcessFunction,
    MapBoth,
)
from queryable_state.streaming.graph.elements import Columns
from queryable_state.streaming.graph.nodes import TransformNode
from queryable_state.streaming.graph.stream_text import keyed_text, stream_text
from queryable_state.streaming.runtime.operators.operators import KeyedCoProcess
from queryable_state.streaming.streams.steps import result_type, step_of
from queryable_state.wire.errors import InvalidRequestError, KeyTypeError
from queryable_state.wire.schema.inference import infer_type
from queryable_state.wire.schema.types import type_info

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.streaming.graph.nodes import OperatorNode, StreamNode
    from queryable_state.streaming.operator_handles import StreamEnvironment
    from queryable_state.streaming.streams.keyed_input import KeyedInput


S = TypeVar("S")
K = TypeVar("K")


class ConnectedStreams(Generic[S, K]):
    """Two streams, which may have different types; S is the class of the resulting stream, K that
    of a stateful operator.

    The elements of both streams interleave in any order.
    """

    def __init__(
        self,
        nodes: tuple[StreamNode, StreamNode],
        stream_of: Callable[[TransformNode], S],
        keyed_by: Callable[..., KeyedConnectedStreams[K]],
    ) -> None:
        self._nodes = nodes
        self._stream_of = stream_of
        self._keyed_by = keyed_by

    def __repr__(self) -> str:
        first, second = map(stream_text, self._nodes)
        return f"<{type(self).__name__}: ({first}) and ({second})>"

    def key_by(
        self, key_selector1: Any, key_selector2: Any, key_type: object = None
    ) -> KeyedConnectedStreams[K]:
        """Partitions both streams by key, each by a column, a position, or a function."""
        return self._keyed_by(key_selector1, key_selector2, key_type=key_type)

    def map(self, func: CoMapFunction, output_type: object = None) -> S:
        """Maps the elements of both streams to elements of one type."""
        return self._transformed("map", func, CoMapFunction, output_type)

    def flat_map(self, func: CoFlatMapFunction, output_type: object = None) -> S:
        """Maps each element of both streams to any number of elements of one type."""
        return self._transformed("flat_map", func, CoFlatMapFunction, output_type)

    def process(self, func: CoProcessFunction, output_type: object = None) -> S:
        """Runs a function that may emit side outputs over the elements of both streams."""
        return self._transformed("process", func, CoProcessFunction, output_type)

    def _transformed(self, kind: str, func: object, cls: type, output_type: object) -> S:
        step = step_of(func, cls)
        for node in self._nodes:
            node.columns.element_type(node.columns.names, kind)  # Raises if a column has no type.
        output = result_type(step, output_type, kind)
        inputs = (node.columns for node in self._nodes)
        return self._stream_of(
            TransformNode(
                upstreams=self._nodes,
                kind=kind,
                step=step,
                output_type=output,
                columns=Columns.of_output(output).with_timestamps_of(*inputs),
            )
        )


class KeyedConnectedStreams(Generic[S]):
    """Two keyed streams with the same type of key; they share the state of each key.

    In each batch the function gets the elements of the first stream before those of the second,
    each stream in the order of its `key_by`.
    """

    def __init__(
        self,
        first: KeyedInput,
        second: KeyedInput,
        stream_of: Callable[[StreamEnvironment, OperatorNode], S],
    ) -> None:
        types = [[field.type for field in each.keys.fields] for each in (first, second)]
        if types[0] != types[1]:
            raise KeyTypeError(
                f"connect: the first stream is keyed by {first.keys.key_type}, the second by "
                f"{second.keys.key_type}: key both by the same types, in the same order"
            )
        self._first = first
        self._second = second
        self._stream_of = stream_of

    def __repr__(self) -> str:
        first, second = (
            keyed_text(each.node, each.keys, each.columns) for each in (self._first, self._second)
        )
        return f"<{type(self).__name__}: ({first}) and ({second})>"

    def process(self, func: KeyedCoProcessFunction, output_type: object = None) -> S:
        """Adds an operator that processes both streams; `output_type` as in
        `KeyedStream.process`."""
        if not isinstance(func, KeyedCoProcessFunction):
            raise InvalidRequestError(
                f"process takes an instance of KeyedCoProcessFunction, not {func!r}"
            )
        return self._added("co-process", func, output_type, func.process_element1)

    def map(self, func: CoMapFunction, output_type: object = None) -> S:
        """Adds an operator that maps both streams; the function may use keyed state."""
        if not isinstance(func, CoMapFunction):
            raise InvalidRequestError(f"map takes an instance of CoMapFunction, not {func!r}")
        return self._added("co-map", MapBoth(func), output_type, func.map1)

    def flat_map(self, func: CoFlatMapFunction, output_type: object = None) -> S:
        """Adds an operator that maps both streams; the function may use keyed state."""
        if not isinstance(func, CoFlatMapFunction):
            raise InvalidRequestError(
                f"flat_map takes an instance of CoFlatMapFunction, not {func!r}"
            )
        return self._added("co-flat-map", FlatMapBoth(func), output_type, func.flat_map1)

    def _added(
        self,
        kind: str,
        function: KeyedCoProcessFunction,
        output_type: object,
        method: Callable[[Any], Any] | Callable[[Any, Any], Any],
    ) -> S:
        """Without an output type that of the annotation of `method` counts; else it is pickled."""
        if output_type is None:
            many = not isinstance(function, MapBoth)
            output_type = infer_type(method, kind, elements=many)
        node = self._second.operator(
            kind,
            KeyedCoProcess(function),
            type_info(output_type),
            before=(self._first.whole("connect"),),
        )
        return self._stream_of(self._first.environment, node)
