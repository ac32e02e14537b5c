"""Two connected streams, whose elements one function processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from queryable_state.streaming.co_functions import (
    CoFlatMapFunction,
    CoMapFunction,
    FlatMapBoth,
    KeyedCoProcessFunction,
    MapBoth,
)
from queryable_state.streaming.runtime.operators.operators import KeyedCoProcess
from queryable_state.wire.errors import InvalidRequestError, KeyTypeError
from queryable_state.wire.schema.types import type_info

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.streaming.graph.nodes import OperatorNode
    from queryable_state.streaming.operator_handles import StreamEnvironment
    from queryable_state.streaming.streams.keyed_input import KeyedInput


S = TypeVar("S")


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

    def process(self, function: KeyedCoProcessFunction, output_type: object) -> S:
        """Adds an operator that processes both streams; `output_type` as in
        `KeyedStream.process`."""
        if not isinstance(function, KeyedCoProcessFunction):
            raise InvalidRequestError(
                f"process takes an instance of KeyedCoProcessFunction, not {function!r}"
            )
        return self._added("co-process", function, output_type)

    def map(self, function: CoMapFunction, output_type: object) -> S:
        """Adds an operator that maps both streams; the function may use keyed state."""
        if not isinstance(function, CoMapFunction):
            raise InvalidRequestError(f"map takes an instance of CoMapFunction, not {function!r}")
        return self._added("co-map", MapBoth(function), output_type)

    def flat_map(self, function: CoFlatMapFunction, output_type: object) -> S:
        """Adds an operator that maps both streams; the function may use keyed state."""
        if not isinstance(function, CoFlatMapFunction):
            raise InvalidRequestError(
                f"flat_map takes an instance of CoFlatMapFunction, not {function!r}"
            )
        return self._added("co-flat-map", FlatMapBoth(function), output_type)

    def _added(self, kind: str, function: KeyedCoProcessFunction, output_type: object) -> S:
        node = self._second.operator(
            kind,
            KeyedCoProcess(function),
            type_info(output_type),
            before=(self._first.whole("connect"),),
        )
        return self._stream_of(self._first.environment, node)
