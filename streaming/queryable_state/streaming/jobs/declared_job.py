"""The operators and sinks an environment collects for its next job."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from queryable_state.streaming.jobs.graph import JobGraph, OperatorNode, SinkNode, SourceNode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.streaming.jobs.graph import StreamNode

_log = logging.getLogger("queryable_state.streaming")


@dataclass(eq=False)
class DeclaredJob:
    """What was declared for one job, in the order of the program."""

    operators: list[OperatorNode] = field(default_factory=list)
    sinks: list[SinkNode] = field(default_factory=list)

    def add_operator(self, node: OperatorNode) -> None:
        """Adds an operator, which gets its position in the program."""
        node.position = len(self.operators)
        self.operators.append(node)

    def graph(self) -> JobGraph:
        """What `execute` runs of it."""
        return JobGraph.of(self.sinks, self.operators)

    def checked_graph(self, job_name: str) -> JobGraph:
        """The graph; refuses what can be known to be wrong with it."""
        graph = self.graph()
        graph.check_one_query(job_name)
        graph.check()
        return graph

    def lines(self) -> Iterator[str]:
        """A line for each operator and sink."""
        for node in self.operators:
            taken = ", taken with to_dataframe()" if node.taken else ""
            keys = ", ".join(node.keys.columns)
            yield f"{_label(node)}: {node.kind} by {keys} of {_label(node.upstream)}{taken}"
        for sink in self.sinks:
            yield f"sink {sink.name!r} of {_label(sink.upstream)}"


class NextJob:
    """The declarations since the last `execute`, and those of a job that was refused since.

    A refused job leaves the environment: it is no part of a job that is declared after it. Only an
    `execute` for which nothing was declared since tries the refused job again, as whoever corrects
    an argument of `execute`, or calls `.uid()` on a stream, expects. Used from one thread.
    """

    def __init__(self) -> None:
        self.declared = DeclaredJob()
        self.taken: list[OperatorNode] = []
        """Operators whose streams were taken with `to_dataframe()`."""
        self._refused: DeclaredJob | None = None

    def take(self, job_name: str) -> DeclaredJob:
        """What `execute` is to run; nothing is declared afterwards."""
        taken, refused = self.declared, self._refused
        self.declared, self._refused = DeclaredJob(), None
        if refused is None:
            return taken
        if not taken.graph().ends:
            return refused
        _log.warning(
            "job %r does not run what was declared for the job that was refused before it: %s",
            job_name,
            "; ".join(refused.lines()),
        )
        return taken

    def refuse(self, job: DeclaredJob) -> None:
        """The job that was taken did not start."""
        if job.graph().ends:
            self._refused = job

    def summary(self) -> str:
        """What there is, in a line."""
        parts = [_counted(self.declared)]
        if self._refused is not None:
            parts.append(f"refused, to be executed again: {_counted(self._refused)}")
        if self.taken:
            parts.append(f"{_plural(len(self.taken), 'stream')} taken with to_dataframe()")
        return "; ".join(parts)

    def lines(self) -> Iterator[str]:
        """A line for each operator and sink."""
        yield from self.declared.lines()
        if self._refused is not None:
            yield from (f"refused: {line}" for line in self._refused.lines())


def _counted(job: DeclaredJob) -> str:
    return f"{_plural(len(job.operators), 'operator')} and {_plural(len(job.sinks), 'sink')}"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


def _label(node: StreamNode) -> str:
    if isinstance(node, SourceNode):
        return f"from_dataframe({', '.join(node.columns.names)})"
    return f"operator {node.name!r}" + (f" (uid {node.uid!r})" if node.name != node.uid else "")
