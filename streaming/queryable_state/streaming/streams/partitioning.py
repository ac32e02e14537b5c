"""Distribution of a stream's elements over partitions."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pyspark.sql import functions as F

from queryable_state.streaming.functions import Function
from queryable_state.streaming.graph.elements import Columns
from queryable_state.streaming.graph.keys import KeySelector as KeyColumns
from queryable_state.streaming.graph.nodes import FrameNode, TransformNode
from queryable_state.streaming.runtime.stateless.steps import Emits, Step
from queryable_state.streaming.spark.plan.columns import column
from queryable_state.streaming.spark.plan.event_time import internal_time
from queryable_state.streaming.stateless.functions import KeySelector, Partitioner
from queryable_state.streaming.streams.stream_options import log_without_effect
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.schema.types import Kind, TypeInfo

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from queryable_state.streaming.functions import RuntimeContext
    from queryable_state.streaming.graph.nodes import StreamNode
    from queryable_state.streaming.operator_handles import StreamEnvironment

S = TypeVar("S")


class Partitioning(Generic[S]):
    """The methods that move elements to other partitions; S is the class of the resulting stream.

    The number of partitions is the environment's parallelism.
    """

    _environment: StreamEnvironment
    _node: StreamNode

    @abstractmethod
    def _stream_of(self, node: FrameNode) -> S:
        """The stream of a node."""

    def shuffle(self) -> S:
        """Distributes the elements evenly."""
        return self._distributed("shuffle")

    def rebalance(self) -> S:
        """Distributes the elements evenly, in turns."""
        return self._distributed("rebalance")

    def rescale(self) -> S:
        """Distributes the elements evenly; Spark has no local variant of `rebalance`."""
        return self._distributed("rescale")

    def forward(self) -> S:
        """Leaves each element in its partition."""
        return self._framed("forward", lambda frame: frame)

    def global_(self) -> S:
        """Moves all elements to one partition."""
        return self._framed("global", lambda frame: frame.repartition(1))

    def partition_custom(
        self,
        partitioner: Partitioner | Callable[[Any, int], int],
        key_selector: KeySelector | Callable[[Any], Any],
    ) -> S:
        """Moves each element to the partition that `partitioner(key, num_partitions)` returns."""
        if not isinstance(partitioner, Partitioner) and not callable(partitioner):
            raise TypeError("Parameter partitioner should be a type of Partitioner or a callable")
        if not isinstance(key_selector, KeySelector) and not callable(key_selector):
            raise TypeError("Parameter key_selector should be a type of KeySelector or a callable")
        columns, count = self._node.columns, self._environment._partitions()
        element = columns.element_type(columns.names, "partition_custom")
        keys = KeyColumns.computed(TypeInfo(Kind.INT), columns)
        (number,) = keys.columns
        numbered = TransformNode(
            upstreams=(self._node,),
            kind="partition_custom",
            step=Step(
                function=_PartitionNumber(partitioner, key_selector, count),
                emits=Emits.RESULT,
                methods=("partition_of",),
            ),
            output_type=element,
            columns=Columns(
                {**columns.types, number: TypeInfo(Kind.INT)}, event_time=columns.event_time
            ),
            keys=keys,
        )
        return self._stream_of(
            FrameNode(
                upstreams=(numbered,),
                kind="partition_custom",
                apply=lambda frame: frame.repartitionById(count, column(number)).drop(number),
                columns=columns,
            )
        )

    def project(self, *field_indexes: int) -> S:
        """Keeps these fields of the elements, which are tuples or rows, in this order."""
        columns = self._node.columns
        element = columns.element_type(columns.names, "project")
        if not field_indexes or element.kind not in (Kind.TUPLE, Kind.ROW):
            raise InvalidRequestError(
                f"project takes indexes of fields of tuples or rows, but the elements are {element}"
            )
        for index in field_indexes:
            if not 0 <= index < len(element.fields):
                raise InvalidRequestError(
                    f"project: field {index} does not exist: the elements are {element}"
                )
        output = TypeInfo(element.kind, fields=tuple(element.fields[i] for i in field_indexes))
        return self._framed(
            "project",
            _projection(field_indexes, columns),
            _projected(columns, output),
        )

    def _broadcast(self) -> S:
        """Every partition receives every element."""
        count = self._environment._partitions()
        target = self._node.columns.free_name("__partition")
        return self._framed(
            "broadcast",
            lambda frame: (
                frame.withColumn(target, F.explode(F.sequence(F.lit(0), F.lit(count - 1))))
                .repartitionById(count, column(target))
                .drop(target)
            ),
        )

    def _distributed(self, kind: str) -> S:
        count = self._environment._partitions()
        if kind == "rescale":
            log_without_effect("rescale instead of rebalance", "both are one shuffle in Spark")
        return self._framed(kind, lambda frame: frame.repartition(count))

    def _framed(
        self, kind: str, apply: Callable[[DataFrame], DataFrame], columns: Columns | None = None
    ) -> S:
        return self._stream_of(
            FrameNode(
                upstreams=(self._node,),
                kind=kind,
                apply=apply,
                columns=self._node.columns if columns is None else columns,
            )
        )


def _projected(columns: Columns, output: TypeInfo) -> Columns:
    """The columns of elements of `output`, which have fields of elements of `columns`."""
    made = Columns.of_output(output)
    if columns.event_time in made.names:
        return replace(made, event_time=columns.event_time)
    return made.with_timestamps_of(columns)


def _projection(indexes: tuple[int, ...], columns: Columns) -> Callable[[DataFrame], DataFrame]:
    if not columns.bare:
        names = [columns.names[index] for index in indexes]
        return lambda frame: frame.select(*map(column, names), *internal_time(frame))
    (name,) = columns.names
    fields = [
        column(name).getField(f"f{index}").alias(f"f{position}")
        for position, index in enumerate(indexes)
    ]
    return lambda frame: frame.select(F.struct(*fields).alias(name), *internal_time(frame))


class _PartitionNumber(Function):
    """The partition of an element, from its key."""

    def __init__(
        self,
        partitioner: Partitioner | Callable[[Any, int], int],
        key_selector: KeySelector | Callable[[Any], Any],
        count: int,
    ) -> None:
        self._opened = [each for each in (partitioner, key_selector) if isinstance(each, Function)]
        self._partition = (
            partitioner.partition if isinstance(partitioner, Partitioner) else partitioner
        )
        self._get_key = (
            key_selector.get_key if isinstance(key_selector, KeySelector) else key_selector
        )
        self._count = count

    def open(self, runtime_context: RuntimeContext) -> None:
        for function in self._opened:
            function.open(runtime_context)

    def close(self) -> None:
        for function in self._opened:
            function.close()

    def partition_of(self, value: Any) -> int:
        """The partition's number; raises ValueError if it is none of the stream's."""
        number = self._partition(self._get_key(value), self._count)
        if not 0 <= number < self._count:
            raise ValueError(
                f"the partitioner returned {number}, but the partitions are 0 to {self._count - 1}"
            )
        return number
