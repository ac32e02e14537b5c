"""Logical graph of a job: the nodes that its ends reach."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from queryable_state.server.coordinator.model.queryable_names import (
    NameClaim,
    check_queryable_names,
)
from queryable_state.server.coordinator.model.registrations import operator_label
from queryable_state.server.settings.environment_settings import joined
from queryable_state.streaming.graph.event_times import EventTimes
from queryable_state.streaming.graph.nodes import (
    OperatorNode,
    SinkNode,
    SourceNode,
    WatermarkNode,
    stateful_depths,
    upstream_first,
)
from queryable_state.streaming.hooks import user_function
from queryable_state.streaming.runtime.aggregates.windowed_aggregate import WindowedAggregate
from queryable_state.streaming.runtime.operators.declared_states import driver_declared_states
from queryable_state.streaming.runtime.windows.window_operator import WindowOperator
from queryable_state.streaming.stateless.timers import has_timers
from queryable_state.wire.errors import InvalidRequestError, JobError, Reason

if TYPE_CHECKING:
    from collections.abc import Iterable

    from queryable_state.streaming.graph.nodes import StreamNode
    from queryable_state.streaming.runtime.operators.operators import Operator

_log = logging.getLogger("queryable_state.streaming")


@dataclass(frozen=True, kw_only=True)
class JobGraph:
    """The operators and sinks of one Spark query.

    `ends` are the sinks, and the operators without a reader. Each batch runs all ends.
    """

    ends: tuple[SinkNode | OperatorNode, ...]
    nodes: tuple[StreamNode | SinkNode, ...] = field(default=())
    """The ends and all their upstreams, upstream nodes first."""

    @staticmethod
    def of(sinks: Iterable[SinkNode], operators: Iterable[OperatorNode]) -> JobGraph:
        """The graph of the sinks, and of the operators without a reader that were not taken."""
        sinks, operators = list(sinks), list(operators)
        nodes = upstream_first([*sinks, *operators])
        read = {id(upstream) for node in nodes for upstream in node.upstreams}
        ends: list[SinkNode | OperatorNode] = [
            *(node for node in operators if id(node) not in read and not node.taken),
            *sinks,
        ]
        return JobGraph.of_ends(ends)

    @staticmethod
    def of_ends(ends: Iterable[SinkNode | OperatorNode]) -> JobGraph:
        """The graph of these ends and their upstream nodes."""
        ends = tuple(ends)
        return JobGraph(ends=ends, nodes=tuple(upstream_first(ends)))

    @staticmethod
    def of_stream(node: StreamNode) -> JobGraph:
        """The graph of one stream: its node and the upstream nodes."""
        return JobGraph(ends=(), nodes=tuple(upstream_first([node])))

    @cached_property
    def operators(self) -> tuple[OperatorNode, ...]:
        """All stateful operators, in program order."""
        found = [node for node in self.nodes if isinstance(node, OperatorNode)]
        return tuple(sorted(found, key=lambda node: node.position))

    @cached_property
    def sources(self) -> tuple[SourceNode, ...]:
        """All streaming sources, in the order in which the ends reach them."""
        found = [node for node in self.nodes if isinstance(node, SourceNode)]
        return tuple(node for node in found if not node.is_initial)

    @cached_property
    def initial_sources(self) -> tuple[SourceNode, ...]:
        """The static DataFrames with initial state."""
        found = [node for node in self.nodes if isinstance(node, SourceNode)]
        return tuple(node for node in found if node.is_initial)

    @cached_property
    def supplied(self) -> tuple[SourceNode | WatermarkNode, ...]:
        """The streams whose rows each batch supplies, in the order in which the ends reach them:
        sources, and streams with a watermark, before which everything is in the streaming plan."""
        read = {id(end) for end in self.ends or self.nodes[-1:]}
        for node in reversed(self.nodes):
            if id(node) in read and not isinstance(node, WatermarkNode):
                read |= {id(each) for each in node.upstreams}
        found = [node for node in self.nodes if id(node) in read]
        return tuple(
            node
            for node in found
            if isinstance(node, WatermarkNode)
            or (isinstance(node, SourceNode) and not node.is_initial)
        )

    @property
    def is_bounded(self) -> bool:
        """True if all sources end, so that the job ends."""
        return all(source.is_bounded for source in self.sources)

    @cached_property
    def needs_clock(self) -> bool:
        """True if an operator needs batches when no source has input."""
        return any(needs_clock(node.operator) for node in self.operators)

    @cached_property
    def sinks(self) -> tuple[SinkNode, ...]:
        """All sinks, in program order."""
        return tuple(end for end in self.ends if isinstance(end, SinkNode))

    @property
    def last_operators(self) -> tuple[OperatorNode, ...]:
        """The operators that no other operator of the graph reads."""
        deepest = {id(node): node for node in self.operators}
        for node in self.operators:
            for upstream in upstream_first(node.upstreams):
                deepest.pop(id(upstream), None)
        return tuple(deepest.values())

    @cached_property
    def depths(self) -> dict[int, int]:
        """The stateful depth of each node, by `id`; see `stateful_depths`."""
        return stateful_depths(self.nodes)

    @cached_property
    def event_times(self) -> EventTimes:
        """The streams whose rows have the internal event-time column."""
        return EventTimes.of(self.nodes)

    def check_not_empty(self, job_name: str) -> None:
        """Raises InvalidRequestError if the graph has nothing to run."""
        if not self.ends:
            raise InvalidRequestError(
                f"job {job_name!r} has nothing to run: add a sink, a stateful operator or a "
                "queryable state (streams taken with to_dataframe() run elsewhere)"
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
        """Raises JobError for uids or queryable names used twice, and InvalidRequestError for
        idleness that cannot be kept; warns about missing uids."""
        uids = Counter(node.uid for node in self.operators)
        for uid, count in uids.items():
            if count > 1:
                raise JobError(
                    f"{count} operators of one job have the uid {uid!r}, which identifies their "
                    "state: give each operator its own uid"
                )
        of_sources = Counter(each.given_uid for each in self.sources if each.given_uid)
        for uid, count in of_sources.items():
            if count > 1:
                raise JobError(
                    f"{count} sources of one job have the uid {uid!r}, which identifies their "
                    "progress: give each source its own uid"
                )
        self._check_idleness()
        check_queryable_names(claim for node in self.operators for claim in name_claims(node))
        unnamed = [node.uid for node in self.operators if node.given_uid is None]
        if unnamed:
            _log.warning(
                "operators without a uid are identified by their position in the program: %s. "
                "Their state is lost when an operator before them is added or removed; call .uid() "
                "on each",
                joined(unnamed),
            )

    def _check_idleness(self) -> None:
        timed = [
            node
            for node in self.nodes
            if isinstance(node, WatermarkNode)
            or (isinstance(node, SourceNode) and node.has_watermark)
        ]
        if len(timed) > 1 and any(
            isinstance(node, WatermarkNode) and node.has_idleness for node in timed
        ):
            raise InvalidRequestError(
                f"with_idleness: the job has {len(timed)} inputs with watermarks, and Spark takes "
                "the minimum of them, also if one input is idle: leave with_idleness out, unite "
                "the streams before one assign_timestamps_and_watermarks, or set "
                "spark.sql.streaming.multipleWatermarkPolicy to max, which drops what is late "
                "behind the fastest input",
                reason=Reason.UNSUPPORTED,
            )


def needs_clock(operator: Operator) -> bool:
    """True if an operator needs batches when its input has no elements: its function or its windows
    have timers."""
    if isinstance(operator, WindowOperator | WindowedAggregate):
        return True
    return has_timers(user_function(getattr(operator, "function", None)))


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
