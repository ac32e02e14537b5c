"""Nodes of a job's logical graph: sources, transformations, stateful operators and sinks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from queryable_state.streaming.graph.origin import Origin
from queryable_state.streaming.runtime.columns.event_time import EVENT_TIME_COLUMN
from queryable_state.streaming.runtime.operators.operators import LatestValueSink
from queryable_state.wire.schema.types import Kind, TypeInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import DataFrame

    from queryable_state.streaming.graph.elements import Columns
    from queryable_state.streaming.graph.keys import KeySelector
    from queryable_state.streaming.runtime.columns.row_order import OrderColumn
    from queryable_state.streaming.runtime.operators.operators import Operator
    from queryable_state.streaming.runtime.stateless.steps import Step
    from queryable_state.streaming.stateless.output_tag import OutputTag


@dataclass(eq=False, kw_only=True)
class SourceNode:
    """A streaming DataFrame that the user passed in, or that reads a source of the program."""

    dataframe: DataFrame
    columns: Columns
    origin: Origin = field(default_factory=Origin)
    is_bounded: bool = False
    """True if the source ends: a job whose sources all end, ends too."""
    first: tuple[Any, ...] = ()
    """The first element of a collection; empty for other sources."""
    given_uid: str | None = None
    """Identity of the source's progress over changes of the program."""
    given_name: str | None = None
    parallelism: int = 0
    """Number of partitions; 0: Spark decides."""
    description: str | None = None
    is_initial: bool = False
    """True if the DataFrame is static and read in the first batch of its operator only."""
    has_watermark: bool = False
    """True if the DataFrame has a watermark of its own."""

    @property
    def upstreams(self) -> tuple[StreamNode, ...]:
        """No node: a source reads no stream."""
        return ()


@dataclass(eq=False, kw_only=True)
class FrameNode:
    """A transformation of DataFrames without Python code: a union, a projection, a shuffle."""

    upstreams: tuple[StreamNode, ...]
    kind: str
    """Name of the method the user called: union, project, rebalance ..."""
    apply: Callable[..., DataFrame]
    """Called with one DataFrame per upstream; deterministic and lazy. If `columns` has internal
    time, the DataFrames may all have the internal event-time column; then the result has it too."""
    columns: Columns


@dataclass(eq=False, kw_only=True)
class WatermarkNode:
    """A stream with a watermark of its own.

    Everything before it is in the streaming plan, where Spark derives the watermark from the rows;
    there is no stateful operator before it.
    """

    upstream: StreamNode
    delay_ms: int
    """The watermark is the greatest timestamp less this."""
    columns: Columns
    has_idleness: bool = False
    """True if the user expects that the stream may be idle while others are not."""
    kind: str = "assign_timestamps_and_watermarks"

    @property
    def upstreams(self) -> tuple[StreamNode, ...]:
        """The stream before the assignment."""
        return (self.upstream,)


@dataclass(eq=False, kw_only=True)
class TransformNode:
    """A Python function without state over the elements of its upstreams."""

    upstreams: tuple[StreamNode, ...]
    kind: str
    """Name of the method the user called: map, process, key_by ..."""
    step: Step
    output_type: TypeInfo
    columns: Columns
    """Columns of the output: the elements, then those of `keys`."""
    keys: KeySelector | None = None
    """The key that the function computes for each element; None: it computes the elements."""
    side_outputs: tuple[OutputTag, ...] = ()
    """The side outputs that are read; `SideOutputNode` has the index of one."""
    parallelism: int = 0
    """The parallelism that was set, for the plan; 0: that of the input."""
    given_uid: str | None = None
    given_name: str | None = None
    description: str | None = None

    @property
    def name(self) -> str:
        """Name for logs and errors."""
        return self.given_name or self.given_uid or self.kind


@dataclass(eq=False, kw_only=True)
class SideOutputNode:
    """A side output of an operator or a function."""

    upstream: OperatorNode | TransformNode
    index: int
    """Index in the `side_outputs` of the upstream."""
    columns: Columns

    @property
    def upstreams(self) -> tuple[StreamNode, ...]:
        """The node that emits the side output."""
        return (self.upstream,)


@dataclass(frozen=True, kw_only=True)
class OperatorInput:
    """One input of a stateful operator: a keyed stream, a broadcast stream, or a stream without
    keys, whose elements are spread over the subtasks by their hash."""

    upstream: StreamNode
    keys: KeySelector | None
    """None: the elements have no key."""
    is_broadcast: bool = False
    """True if every subtask receives every element."""
    value_columns: tuple[str, ...]
    value_type: TypeInfo
    order: tuple[OrderColumn, ...] = ()
    """Order of a batch's rows; empty: arrival order."""

    @property
    def is_initial(self) -> bool:
        """True if the input is read in the first batch of the operator only."""
        return isinstance(self.upstream, SourceNode) and self.upstream.is_initial

    @property
    def is_ordered_by_internal(self) -> bool:
        """True if the order is by the internal event-time column."""
        return any(key.column == EVENT_TIME_COLUMN for key in self.order)

    @property
    def element_columns(self) -> tuple[str, ...]:
        """The columns of the key and of the element."""
        keys = () if self.keys is None else self.keys.columns
        return tuple(dict.fromkeys((*keys, *self.value_columns)))


@dataclass(eq=False, kw_only=True)
class OperatorNode:
    """A stateful operator over the elements of one or several inputs.

    The first keyed input determines the type of the key; all keyed inputs have that type.
    """

    inputs: tuple[OperatorInput, ...]
    kind: str
    """Name of the method the user called: process, reduce, sum ..."""
    operator: Operator
    output_type: TypeInfo | None
    columns: Columns
    """Output columns; empty for a queryable sink."""
    side_outputs: tuple[OutputTag, ...] = ()
    """The side outputs that are read; `SideOutputNode` has the index of one."""
    position: int = 0
    """Index among the stateful operators of the program; part of the default uid."""
    parallelism: int = 0
    """0: the environment's parallelism when the job is compiled."""
    max_parallelism: int = 0
    """0: the environment's max parallelism when the job is compiled."""
    given_uid: str | None = None
    given_name: str | None = None
    description: str | None = None
    taken: bool = False
    """True if the user took the stream with `to_dataframe()` and starts it."""

    @property
    def upstreams(self) -> tuple[StreamNode, ...]:
        """The nodes of the inputs, in order."""
        return tuple(each.upstream for each in self.inputs)

    @property
    def keys(self) -> KeySelector | None:
        """The keys of the first keyed input; None if the operator has only operator state."""
        return next((each.keys for each in self.inputs if each.keys is not None), None)

    @property
    def key_type(self) -> TypeInfo:
        """Type of the key. Operator state is addressed by subtask, an INT."""
        return TypeInfo(Kind.INT) if self.keys is None else self.keys.key_type

    @property
    def depth(self) -> int:
        """The greatest number of stateful operators on a path from a source to this one; 0: there
        is none before it."""
        return stateful_depths([self])[id(self)] - 1

    @property
    def latest_by(self) -> tuple[OrderColumn, ...]:
        """The order of a latest-value sink over all batches; empty for other operators."""
        return self.operator.latest_by if isinstance(self.operator, LatestValueSink) else ()

    @property
    def uid(self) -> str:
        """Identity of the state within the job."""
        return self.given_uid or f"{self.kind}-{self.position}"

    @property
    def name(self) -> str:
        """Name for logs and errors."""
        return self.given_name or self.given_uid or self.uid

    @property
    def window_columns(self) -> tuple[str, ...]:
        """The column with the window of each element of a latest-value sink."""
        window = self.operator.window if isinstance(self.operator, LatestValueSink) else None
        return () if window is None else (window.column,)

    def order_columns(self, number: int) -> tuple[str, ...]:
        """Columns of `latest_by` and of the order of one input."""
        order = (*self.latest_by, *self.inputs[number].order)
        return tuple(dict.fromkeys(key.column for key in order))


StreamNode = SourceNode | FrameNode | WatermarkNode | TransformNode | OperatorNode | SideOutputNode


@dataclass(eq=False, kw_only=True)
class SinkNode:
    """A function that is called with each batch of a stream."""

    upstream: StreamNode
    write: Callable[[DataFrame, int], object]
    name: str = "sink"
    parallelism: int = 0
    """The parallelism that was set, for the plan; 0: that of the input."""
    description: str | None = None

    @property
    def upstreams(self) -> tuple[StreamNode, ...]:
        """The stream that the sink reads."""
        return (self.upstream,)


def origin_of(node: StreamNode) -> Origin:
    """The origin of a stream's rows if its source is known; else an empty one."""
    if isinstance(node, TransformNode) and node.keys is not None:
        return origin_of(node.upstreams[0])
    if isinstance(node, FrameNode | WatermarkNode) and len(node.upstreams) == 1:
        return Origin(origin_of(node.upstreams[0]).sources)
    return node.origin if isinstance(node, SourceNode) else Origin()


def stateful_depths(nodes: Iterable[StreamNode | SinkNode]) -> dict[int, int]:
    """The depth of each node and of all its upstreams, by `id`.

    The depth is the greatest number of stateful operators on a path from a source to the node,
    inclusive.
    """
    depths: dict[int, int] = {}
    for node in upstream_first(nodes):
        above = max((depths[id(each)] for each in node.upstreams), default=0)
        depths[id(node)] = above + isinstance(node, OperatorNode)
    return depths


def upstream_first(nodes: Iterable[StreamNode | SinkNode]) -> list[StreamNode | SinkNode]:
    """The nodes and all their upstreams, each once, after its own upstreams."""
    found: dict[int, StreamNode | SinkNode] = {}
    entered: set[int] = set()
    pending = list(nodes)[::-1]
    while pending:
        node = pending[-1]
        missing = [each for each in node.upstreams if id(each) not in found]
        if missing and id(node) not in entered:
            entered.add(id(node))
            pending += missing[::-1]
            continue
        pending.pop()
        found[id(node)] = node
    return list(found.values())
