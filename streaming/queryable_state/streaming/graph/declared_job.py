"""Operators and sinks that an environment collects for its next job."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from queryable_state.streaming.graph.job_graph import JobGraph
from queryable_state.streaming.graph.nodes import OperatorNode, SideOutputNode, SourceNode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from queryable_state.streaming.graph.nodes import SinkNode, StreamNode

_log = logging.getLogger("queryable_state.streaming")


@dataclass(eq=False)
class DeclaredJob:
    """The operators and sinks declared for one job, in program order."""

    operators: list[OperatorNode] = field(default_factory=list)
    sinks: list[SinkNode] = field(default_factory=list)

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
        return graph

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

    def take_streams(self, operators: Iterable[OperatorNode]) -> None:
        """Notes the operators of a stream that was taken with `to_dataframe()`."""
        for operator in operators:
            operator.taken = True
            self.taken.append(operator)

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
