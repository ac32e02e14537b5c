"""A broadcast stream, and streams connected with one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from queryable_state.streaming.descriptors import MapStateDescriptor
from queryable_state.streaming.graph.elements import Columns
from queryable_state.streaming.graph.nodes import OperatorNode
from queryable_state.streaming.graph.unkeyed_input import unkeyed_input
from queryable_state.streaming.operator_state.broadcast_functions import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
)
from queryable_state.streaming.runtime.operators.operators import (
    BroadcastProcess,
    KeyedBroadcastProcess,
)
from queryable_state.wire.errors import InvalidRequestError, JobError, Reason
from queryable_state.wire.schema.inference import infer_type
from queryable_state.wire.schema.types import type_info

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from queryable_state.streaming.graph.nodes import OperatorInput, StreamNode
    from queryable_state.streaming.operator_handles import StreamEnvironment

S = TypeVar("S")


class BroadcastStream:
    """A stream whose elements every subtask receives; created by `DataStream.broadcast`."""

    def __init__(self, node: StreamNode, descriptors: Sequence[MapStateDescriptor]) -> None:
        if not descriptors:
            raise InvalidRequestError(
                "broadcast() takes the MapStateDescriptors of the broadcast states, at least one"
            )
        names = set()
        for descriptor in descriptors:
            if not isinstance(descriptor, MapStateDescriptor):
                raise InvalidRequestError(
                    f"broadcast takes MapStateDescriptors, not {descriptor!r}"
                )
            if descriptor.name in names:
                raise JobError(
                    f"broadcast was called with two descriptors named {descriptor.name!r}: give "
                    "each its own name",
                    reason=Reason.DUPLICATE_NAME,
                )
            names.add(descriptor.name)
        self.descriptors = tuple(descriptors)
        """Descriptors of the broadcast states."""
        self.node = node

    def input(self) -> OperatorInput:
        """The stream as an input of an operator."""
        return unkeyed_input(self.node, "broadcast", is_broadcast=True)


class BroadcastConnectedStream(Generic[S]):
    """A stream connected with a broadcast stream.

    In each batch the function gets the broadcast elements first, on every subtask in the same
    order.
    """

    def __init__(
        self,
        environment: StreamEnvironment,
        stream: OperatorInput,
        broadcast: BroadcastStream,
        stream_of: Callable[[StreamEnvironment, OperatorNode], S],
    ) -> None:
        if not isinstance(broadcast, BroadcastStream):
            raise InvalidRequestError(
                f"connect of a stream without keys takes a BroadcastStream, not {broadcast!r}: "
                "call broadcast(descriptor) on it, or key_by() on both streams"
            )
        self._environment = environment
        self._stream = stream
        self._broadcast = broadcast
        self._stream_of = stream_of

    def process(
        self,
        func: KeyedBroadcastProcessFunction | BroadcastProcessFunction,
        output_type: object = None,
    ) -> S:
        """Adds an operator; a keyed stream takes a `KeyedBroadcastProcessFunction`, another one a
        `BroadcastProcessFunction`. `output_type` as in `KeyedStream.process`."""
        keyed, descriptors = self._stream.keys is not None, self._broadcast.descriptors
        operator: KeyedBroadcastProcess | BroadcastProcess
        if keyed and isinstance(func, KeyedBroadcastProcessFunction):
            operator = KeyedBroadcastProcess(func, descriptors)
        elif not keyed and isinstance(func, BroadcastProcessFunction):
            operator = BroadcastProcess(func, descriptors)
        else:
            wanted = "KeyedBroadcastProcessFunction" if keyed else "BroadcastProcessFunction"
            kind = "a keyed stream" if keyed else "a stream without keys"
            raise InvalidRequestError(
                f"process of {kind} that is connected with a broadcast stream takes an instance "
                f"of {wanted}, not {func!r}"
            )
        if output_type is None:
            output_type = infer_type(func.process_element, "broadcast-process", elements=True)
        output = type_info(output_type)
        inputs = (self._broadcast.input(), self._stream)
        times = (each.upstream.columns for each in inputs)
        node = OperatorNode(
            inputs=inputs,
            kind="broadcast-process",
            operator=operator,
            output_type=output,
            columns=Columns.of_output(output).with_timestamps_of(*times),
        )
        return self._stream_of(self._environment, self._environment._add_operator(node))
