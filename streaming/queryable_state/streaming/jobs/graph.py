"""What a job is made of: sources, stateful operators and sinks, before Spark sees any of it."""

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
from queryable_state.streaming.jobs.origin import Origin
from queryable_state.streaming.runtime.operators.operators import (
    LatestValueSink,
    driver_declared_states,
)
from queryable_state.wire.errors import InvalidRequestError, JobError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import DataFrame

    from queryable_state.streaming.jobs.elements import Columns
    from queryable_state.streaming.jobs.keys import KeySelector
    from queryable_state.streaming.runtime.columns.row_order import OrderColumn
    from queryable_state.streaming.runtime.operators.operators import Operator
    from queryable_state.wire.schema.types import TypeInfo

_log = logging.getLogger("queryable_state.streaming")


@dataclass(eq=False, kw_only=True)
class SourceNode:
    """A streaming DataFrame of the user's."""

    dataframe: DataFrame
    columns: Columns
    origin: Origin = field(default_factory=Origin)
    depth: int = 0


@dataclass(eq=False, kw_only=True)
class OperatorNode:
    """A stateful operator: elements of `upstream`, by key."""

    upstream: StreamNode
    kind: str
    """What the user called: process, reduce, sum ..."""
    keys: KeySelector
    operator: Operator
    value_columns: tuple[str, ...]
    value_type: TypeInfo
    output_type: TypeInfo | None
    columns: Columns
    """Of what it puts out; empty for a queryable sink."""
    order: tuple[OrderColumn, ...] = ()
    """What the rows of a batch are ordered by; empty: they come as they arrive."""
    position: int = 0
    """Place among the stateful operators of the program, for a uid that was not given."""
    parallelism: int = 0
    """0: as the environment says when the job is compiled."""
    max_parallelism: int = 0
    """0: as the environment says when the job is compiled."""
    given_uid: str | None = None
    given_name: str | None = None
    taken: bool = False
    """Handed out as a DataFrame: who took it runs it."""

    @property
    def depth(self) -> int:
        """Stateful operators from the source to this one, itself included."""
        return self.upstream.depth + 1

    @property
    def order_columns(self) -> tuple[str, ...]:
        """Columns that decide which of a key's rows come first, or last."""
        latest_by = self.operator.latest_by if isinstance(self.operator, LatestValueSink) else ()
        return tuple(dict.fromkeys(key.column for key in (*latest_by, *self.order)))

    @property
    def uid(self) -> str:
        """Identity of the state within the job."""
        return self.given_uid or f"{self.kind}-{self.position}"

    @property
    def name(self) -> str:
        """Name for people."""
        return self.given_name or self.given_uid or self.uid


StreamNode = SourceNode | OperatorNode


@dataclass(eq=False, kw_only=True)
class SinkNode:
    """Something done with each batch of a stream."""

    upstream: StreamNode
    write: Callable[[DataFrame, int], object]
    name: str = "sink"


@dataclass(frozen=True, kw_only=True)
class JobGraph:
    """Everything that runs as one Spark query.

    `ends` are the sinks and the operators nobody reads; each is run in every batch.
    """

    ends: tuple[SinkNode | OperatorNode, ...]
    operators: tuple[OperatorNode, ...] = field(default=())
    """All stateful operators, upstream ones first."""

    @staticmethod
    def of(sinks: Iterable[SinkNode], operators: Iterable[OperatorNode]) -> JobGraph:
        """The graph of these sinks, and of those operators that nobody reads or took."""
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
        """The graph of one operator and what is upstream of it."""
        return JobGraph(ends=(node,), operators=_reached([node]))

    @staticmethod
    def of_streams(nodes: Iterable[OperatorNode]) -> JobGraph:
        """The graph of several operators and what is upstream of them."""
        ends = tuple(nodes)
        return JobGraph(ends=ends, operators=_reached(ends))

    @property
    def sources(self) -> tuple[SourceNode, ...]:
        """The sources of all ends, each once."""
        found: dict[int, SourceNode] = {}
        for end in self.ends:
            *_, source = _chain(end)
            assert isinstance(source, SourceNode)
            found[id(source)] = source
        return tuple(found.values())

    def readers(self, node: StreamNode) -> int:
        """How many operators and sinks of this graph read a node."""
        readers: list[SinkNode | OperatorNode] = list(self.operators)
        readers += [end for end in self.ends if isinstance(end, SinkNode)]
        return sum(reader.upstream is node for reader in readers)

    def has_sink(self, node: StreamNode) -> bool:
        """True if a sink of this graph reads the node."""
        return any(isinstance(end, SinkNode) and end.upstream is node for end in self.ends)

    def check_one_query(self, job_name: str) -> None:
        """Refuses what is not one Spark query: no end, or several sources."""
        if not self.ends:
            raise InvalidRequestError(
                f"job {job_name!r} has nothing to run: add a sink, a stateful operator or a "
                "queryable state (streams taken with to_dataframe() run elsewhere)"
            )
        if len(self.sources) > 1:
            raise InvalidRequestError(
                f"job {job_name!r} reads {len(self.sources)} DataFrames, and one Spark query "
                "reads one: start from one from_dataframe() call, union or join the DataFrames "
                "before, or execute a job for each"
            )

    def check(self) -> None:
        """Refuses what can be known to be wrong before the job starts; warns of missing uids."""
        uids = Counter(node.uid for node in self.operators)
        for uid, count in uids.items():
            if count > 1:
                raise JobError(
                    f"{count} operators of one job have the uid {uid!r}, which identifies their "
                    "state: give each its own"
                )
        check_queryable_names(claim for node in self.operators for claim in name_claims(node))
        unnamed = [node.uid for node in self.operators if node.given_uid is None]
        if unnamed:
            _log.warning(
                "operators without a uid are known by their place in the program: %s. Their state "
                "is lost when an operator is added or removed before them; call .uid() on each",
                joined(unnamed),
            )


def _chain(end: SinkNode | OperatorNode) -> Iterator[StreamNode]:
    """An end's nodes from itself up to its source."""
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
    """The queryable names an operator will claim, as far as the driver can know.

    A process function is asked by opening a copy of it. One that cannot be opened
    here, because it needs what only executors have, is asked by its first batch.
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
    """A uid or name as given by the user."""
    if not isinstance(name, str) or not name.strip():
        raise InvalidRequestError(f"{what} is a text that is not empty, not {name!r}")
    return name
