"""Logical graph of a job: its sources, stateful operators and sinks."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from queryable_state.server.coordinator.model.queryable_names import (
    NameClaim,
    check_queryable_names,
)
from queryable_state.server.coordinator.model.registrations import operator_label
from queryable_state.streaming.config.settings import joined
from queryable_state.streaming.graph.origin import Origin
from queryable_state.streaming.runtime.operators.operators import (
    LatestValueSink,
    driver_declared_states,
)
from queryable_state.wire.errors import InvalidRequestError, JobError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import DataFrame

    from queryable_state.streaming.graph.elements import Columns
    from queryable_state.streaming.graph.keys import KeySelector
    from queryable_state.streaming.runtime.columns.row_order import OrderColumn
    from queryable_state.streaming.runtime.operators.operators import Operator
    from queryable_state.wire.schema.types import TypeInfo

_log = logging.getLogger("queryable_state.streaming")


@dataclass(eq=False, kw_only=True)
class SourceNode:
    """A streaming DataFrame that the user passed in."""

    dataframe: DataFrame
    columns: Columns
    origin: Origin = field(default_factory=Origin)
    depth: int = 0


@dataclass(eq=False, kw_only=True)
class OperatorNode:
    """A stateful operator over the keyed elements of `upstream`."""

    upstream: StreamNode
    kind: str
    """Name of the method the user called: process, reduce, sum ..."""
    keys: KeySelector
    operator: Operator
    value_columns: tuple[str, ...]
    value_type: TypeInfo
    output_type: TypeInfo | None
    columns: Columns
    """Output columns; empty for a queryable sink."""
    order: tuple[OrderColumn, ...] = ()
    """Order of a batch's rows; empty: arrival order."""
    position: int = 0
    """Index among the stateful operators of the program; part of the default uid."""
    parallelism: int = 0
    """0: the environment's parallelism when the job is compiled."""
    max_parallelism: int = 0
    """0: the environment's max parallelism when the job is compiled."""
    given_uid: str | None = None
    given_name: str | None = None
    taken: bool = False
    """True if the user took the stream with `to_dataframe()` and starts it."""

    @property
    def depth(self) -> int:
        """Number of stateful operators from the source to this one, inclusive."""
        return self.upstream.depth + 1

    @property
    def order_columns(self) -> tuple[str, ...]:
        """Columns of `order` and `latest_by`."""
        latest_by = self.operator.latest_by if isinstance(self.operator, LatestValueSink) else ()
        return tuple(dict.fromkeys(key.column for key in (*latest_by, *self.order)))

    @property
    def uid(self) -> str:
        """Identity of the state within the job."""
        return self.given_uid or f"{self.kind}-{self.position}"

    @property
    def name(self) -> str:
        """Name for logs and errors."""
        return self.given_name or self.given_uid or self.uid


StreamNode = SourceNode | OperatorNode


@dataclass(eq=False, kw_only=True)
class SinkNode:
    """A function that is called with each batch of a stream."""

    upstream: StreamNode
    write: Callable[[DataFrame, int], object]
    name: str = "sink"


@dataclass(frozen=True, kw_only=True)
class JobGraph:
    """The operators and sinks of one Spark query.

    `ends` are the sinks, and the operators without a reader. Each batch runs all ends.
    """

    ends: tuple[SinkNode | OperatorNode, ...]
    operators: tuple[OperatorNode, ...] = field(default=())
    """All stateful operators, upstream operators first."""

    @staticmethod
    def of(sinks: Iterable[SinkNode], operators: Iterable[OperatorNode]) -> JobGraph:
        """The graph of the sinks, and of the operators without a reader that were not taken."""
        sinks, operators = list(sinks), list(operators)
        readers: list[SinkNode | OperatorNode] = [*sinks, *operators]
        read = {id(node.upstream) for node in readers}
        ends: list[SinkNode | OperatorNode] = [
            *(node for node in operators if id(node) not in read and not node.taken),
            *sinks,
        ]
        return JobGraph(ends=tuple(ends), operators=_reached(ends))

    @staticmethod
    def of_stream(node: OperatorNode) -> JobGraph:
        """The graph of one operator and its upstream operators."""
        return JobGraph(ends=(node,), operators=_reached([node]))

    @staticmethod
    def of_streams(nodes: Iterable[OperatorNode]) -> JobGraph:
        """The graph of several operators and their upstream operators."""
        ends = tuple(nodes)
        return JobGraph(ends=ends, operators=_reached(ends))

    @property
    def sources(self) -> tuple[SourceNode, ...]:
        """The distinct sources of all ends."""
        found: dict[int, SourceNode] = {}
        for end in self.ends:
            *_, source = _chain(end)
            assert isinstance(source, SourceNode)
            found[id(source)] = source
        return tuple(found.values())

    def readers(self, node: StreamNode) -> int:
        """Number of operators and sinks of this graph that read a node."""
        readers: list[SinkNode | OperatorNode] = list(self.operators)
        readers += [end for end in self.ends if isinstance(end, SinkNode)]
        return sum(reader.upstream is node for reader in readers)

    def has_sink(self, node: StreamNode) -> bool:
        """True if a sink of this graph reads the node."""
        return any(isinstance(end, SinkNode) and end.upstream is node for end in self.ends)

    def check_one_query(self, job_name: str) -> None:
        """Raises InvalidRequestError unless the graph has an end and exactly one source."""
        if not self.ends:
            raise InvalidRequestError(
                f"job {job_name!r} has nothing to run: add a sink, a stateful operator or a "
                "queryable state (streams taken with to_dataframe() run elsewhere)"
            )
        if len(self.sources) > 1:
            raise InvalidRequestError(
                f"job {job_name!r} reads {len(self.sources)} DataFrames, but one Spark query "
                "reads one: call from_dataframe() once, union or join the DataFrames before, or "
                "execute one job per DataFrame"
            )

    def require_uids(self, job_name: str) -> None:
        """Raises InvalidRequestError if an operator has no uid."""
        unnamed = [node.uid for node in self.operators if node.given_uid is None]
        if unnamed:
            raise InvalidRequestError(
                f"job {job_name!r} has operators without a uid ({joined(unnamed)}), and "
                "pipeline.auto-generate-uids is false: call .uid() on each, or "
                "enable_auto_generated_uids() of the ExecutionConfig"
            )

    def check(self) -> None:
        """Raises JobError for uids or queryable names used twice; warns about missing uids."""
        uids = Counter(node.uid for node in self.operators)
        for uid, count in uids.items():
            if count > 1:
                raise JobError(
                    f"{count} operators of one job have the uid {uid!r}, which identifies their "
                    "state: give each operator its own uid"
                )
        check_queryable_names(claim for node in self.operators for claim in name_claims(node))
        unnamed = [node.uid for node in self.operators if node.given_uid is None]
        if unnamed:
            _log.warning(
                "operators without a uid are identified by their position in the program: %s. "
                "Their state is lost when an operator before them is added or removed; call .uid() "
                "on each",
                joined(unnamed),
            )


def _chain(end: SinkNode | OperatorNode) -> Iterator[StreamNode]:
    """The nodes from an end up to its source."""
    node: StreamNode = end.upstream if isinstance(end, SinkNode) else end
    while isinstance(node, OperatorNode):
        yield node
        node = node.upstream
    yield node


def _reached(ends: Iterable[SinkNode | OperatorNode]) -> tuple[OperatorNode, ...]:
    found: dict[int, OperatorNode] = {}
    for end in ends:
        for node in _chain(end):
            if isinstance(node, OperatorNode):
                found[id(node)] = node
    return tuple(sorted(found.values(), key=lambda node: node.position))


def name_claims(node: OperatorNode) -> list[NameClaim]:
    """The queryable names that an operator will register, if the driver can determine them.

    The driver opens a copy of a process function to learn them. If `open` needs resources of an
    executor and fails here, the list is empty and the first batch checks the names.
    """
    descriptors = driver_declared_states(node.operator, node.name) or []
    return [
        NameClaim(
            queryable_name=descriptor.queryable_name,
            operator=operator_label(node.uid, node.name),
            state_name=descriptor.name,
        )
        for descriptor in descriptors
        if descriptor.queryable_name
    ]


def check_name(what: str, name: object) -> str:
    """The uid or name; raises InvalidRequestError if it is not a non-empty string."""
    if not isinstance(name, str) or not name.strip():
        raise InvalidRequestError(f"{what} must be a non-empty string, not {name!r}")
    return name
