"""Operators and sinks that an environment collects for its next job."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from queryable_state.server.settings.environment_settings import joined
from queryable_state.streaming.graph.job_graph import JobGraph
from queryable_state.streaming.graph.nodes import OperatorNode, SideOutputNode, SourceNode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.streaming.graph.nodes import SinkNode, StreamNode, TransformNode

_log = logging.getLogger("queryable_state.streaming")


@dataclass(eq=False)
class DeclaredJob:
    """The operators and sinks declared for one job, in program order."""

    operators: list[OperatorNode] = field(default_factory=list)
    sinks: list[SinkNode] = field(default_factory=list)
    functions: list[TransformNode] = field(default_factory=list)
    """Functions without state; those that nothing reads are named in a warning."""

    def add_operator(self, node: OperatorNode) -> None:
        """Adds an operator and sets its position."""
        node.position = len(self.operators)
        self.operators.append(node)

    def graph(self) -> JobGraph:
        """The graph that `execute` runs."""
        return JobGraph.of(self.sinks, self.operators)

    def checked_graph(self, job_name: str) -> JobGraph:
        """The graph, after the checks that need no running job."""
        graph = self.graph()
        graph.check_not_empty(job_name)
        graph.check()
        self._warn_of_unread(graph)
        return graph

    def _warn_of_unread(self, graph: JobGraph) -> None:
        """Warns of functions that no sink or stateful operator reads: they do not run."""
        reached = set(map(id, graph.nodes))
        unread = [node.name for node in self.functions if id(node) not in reached]
        if unread:
            _log.warning(
                "functions that no sink or stateful operator reads do not run: %s. Add a sink, for "
                "instance print(), or remove them",
                joined(unread),
            )

    def lines(self) -> Iterator[str]:
        """One line per operator and sink."""
        for node in self.operators:
            taken = ", taken with to_dataframe()" if node.taken else ""
            yield f"{_label(node)}: {node.kind} {_inputs(node)}{taken}"
        for sink in self.sinks:
            yield f"sink {sink.name!r} of {_label(sink.upstream)}"


class NextJob:
    """The declarations since the last `execute`, and the last refused job.

    A refused job does not become part of a job that is declared after it. An `execute` without new
    declarations tries the refused job again, so that a user can correct an argument of `execute`
    or call `.uid()` on a stream. Used from one thread.
    """

    def __init__(self) -> None:
        self.declared = DeclaredJob()
        self.taken: list[OperatorNode] = []
        """Operators whose streams were taken with `to_dataframe()`."""
        self._refused: DeclaredJob | None = None

    def take(self, job_name: str) -> DeclaredJob:
        """The job that `execute` runs; afterwards no declarations are left."""
        taken, refused = self.declared, self._refused
        self.declared, self._refused = DeclaredJob(), None
        if refused is None:
            return taken
        if not taken.graph().ends:
            return refused
        _log.warning(
            "job %r does not run the declarations of the job that was refused before it: %s",
            job_name,
            "; ".join(refused.lines()),
        )
        return taken

    def take_stream(self, graph: JobGraph) -> None:
        """Notes the operators of a stream that was taken with `to_dataframe()`."""
        for operator in graph.last_operators:
            operator.taken = True
            self.taken.append(operator)
        reached = set(map(id, graph.nodes))
        kept = [node for node in self.declared.functions if id(node) not in reached]
        self.declared.functions = kept

    def planned(self) -> DeclaredJob:
        """The job that `execute` would run."""
        if self._refused is not None and not self.declared.graph().ends:
            return self._refused
        return self.declared

    def refuse(self, job: DeclaredJob) -> None:
        """Keeps a job that did not start, for another `execute`."""
        if job.graph().ends:
            self._refused = job

    def summary(self) -> str:
        """One line with the number of operators and sinks."""
        parts = [_counted(self.declared)]
        if self._refused is not None:
            parts.append(f"refused, to be executed again: {_counted(self._refused)}")
        if self.taken:
            parts.append(f"{_plural(len(self.taken), 'stream')} taken with to_dataframe()")
        return "; ".join(parts)

    def lines(self) -> Iterator[str]:
        """One line per operator and sink."""
        yield from self.declared.lines()
        if self._refused is not None:
            yield from (f"refused: {line}" for line in self._refused.lines())


def _counted(job: DeclaredJob) -> str:
    return f"{_plural(len(job.operators), 'operator')} and {_plural(len(job.sinks), 'sink')}"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


def _label(node: StreamNode) -> str:
    match node:
        case SourceNode():
            return f"from_dataframe({', '.join(node.columns.names)})"
        case OperatorNode():
            uid = f" (uid {node.uid!r})" if node.name != node.uid else ""
            return f"operator {node.name!r}{uid}"
        case SideOutputNode():
            return f"side output {node.index} of {_label(node.upstream)}"
        case _:
            return f"{node.kind}({', '.join(map(_label, node.upstreams))})"


def _inputs(node: OperatorNode) -> str:
    return " and ".join(
        f"by {', '.join(each.keys.columns)} of {_label(each.upstream)}"
        if each.keys is not None
        else f"broadcast {_label(each.upstream)}"
        for each in node.inputs
    )
