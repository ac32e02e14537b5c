"""Transformations of elements by functions without state."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from queryable_state.streaming.graph.elements import Columns
from queryable_state.streaming.graph.nodes import TransformNode
from queryable_state.streaming.graph.unkeyed_input import unkeyed_operator
from queryable_state.streaming.sources.watermarks import watermarked
from queryable_state.streaming.stateless.functions import (
    FilterFunction,
    FlatMapFunction,
    MapFunction,
    ProcessFunction,
)
from queryable_state.streaming.streams.steps import result_type, step_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from queryable_state.streaming.graph.nodes import StreamNode
    from queryable_state.streaming.runtime.stateless.steps import Step
    from queryable_state.streaming.sources.watermark_strategy import WatermarkStrategy
    from queryable_state.wire.schema.types import TypeInfo

S = TypeVar("S")


class Transformations(Generic[S]):
    """The methods that run functions without keys; S is the class of the resulting stream.

    Adjacent functions run in one Python task. An output without a known type is pickled: pass
    `output_type` or annotate the function.

    A `CheckpointedFunction`, `ListCheckpointed` or `CheckpointListener` runs as a stateful
    operator: the elements are spread over its subtasks by their hash, and it has a uid and a
    parallelism.
    """

    _node: StreamNode

    @abstractmethod
    def _stream_of(self, node: StreamNode) -> S:
        """The stream of a node."""

    def map(self, func: MapFunction | Callable[[Any], Any], output_type: object = None) -> S:
        """Maps each element to one element."""
        step = step_of(func, MapFunction)
        return self._transformed("map", step, result_type(step, output_type, "map"))

    def flat_map(
        self,
        func: FlatMapFunction | Callable[[Any], Iterable[Any] | None],
        output_type: object = None,
    ) -> S:
        """Maps each element to any number of elements."""
        step = step_of(func, FlatMapFunction)
        return self._transformed("flat_map", step, result_type(step, output_type, "flat_map"))

    def filter(self, func: FilterFunction | Callable[[Any], Any]) -> S:
        """Keeps the elements for which the function returns true."""
        step = step_of(func, FilterFunction)
        columns = self._node.columns
        element = columns.element_type(columns.names, "filter")
        return self._transformed("filter", step, element, columns)

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> S:
        """Assigns the timestamps of the elements and the watermark by a strategy.

        Everything before it runs in the streaming plan of Spark, which derives the watermark of a
        batch from the elements of the batches before. Raises InvalidRequestError behind a stateful
        operator, on a stream that has a watermark, and for elements without timestamps if the
        strategy has no assigner.
        """
        made = watermarked(self._node, watermark_strategy)
        return cast("S", self) if made is self._node else self._stream_of(made)

    def _process(self, func: ProcessFunction, output_type: object) -> S:
        step = step_of(func, ProcessFunction)
        return self._transformed("process", step, result_type(step, output_type, "process"))

    def _transformed(
        self, kind: str, step: Step, output: TypeInfo, columns: Columns | None = None
    ) -> S:
        if step.has_operator_state:
            return self._stream_of(unkeyed_operator(self._node, kind, step, output))
        source = self._node.columns
        source.element_type(source.names, kind)  # Raises if a column has no type.
        if columns is None:
            columns = Columns.of_output(output).with_timestamps_of(source)
        return self._stream_of(
            TransformNode(
                upstreams=(self._node,),
                kind=kind,
                step=step,
                output_type=output,
                columns=columns,
            )
        )
