"""Execution plan of a job: its graph as JSON in the form of Flink's plan, or as a drawing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from queryable_state.streaming.graph.job_graph import name_claims
from queryable_state.streaming.graph.nodes import (
    OperatorNode,
    SideOutputNode,
    SinkNode,
    SourceNode,
)
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from queryable_state.streaming.graph.job_graph import JobGraph
    from queryable_state.streaming.graph.nodes import StreamNode

LANGUAGES: Final = ("mermaid", "dot")

_SOURCE, _OPERATOR, _SINK = "Data Source", "Operator", "Data Sink"
_SHIPPED = ("BROADCAST", "GLOBAL", "REBALANCE", "RESCALE", "SHUFFLE", "PARTITION_CUSTOM")
_SIDES = ("first", "second")


@dataclass(frozen=True)
class ExecutionPlan:
    """The nodes of a job, upstream nodes first, with Flink's field names."""

    nodes: tuple[Mapping[str, Any], ...]

    @staticmethod
    def of(graph: JobGraph, parallelism: int) -> ExecutionPlan:
        """The plan of a graph; `parallelism` is that of operators that set none."""
        ids = {id(node): number for number, node in enumerate(graph.nodes, 1)}
        made: dict[int, Mapping[str, Any]] = {}
        for node in graph.nodes:
            above = [made[id(upstream)]["parallelism"] for upstream in node.upstreams]
            made[id(node)] = _described(node, ids, above, parallelism)
        return ExecutionPlan(tuple(made.values()))

    def as_json(self) -> str:
        """The plan as JSON text."""
        return json.dumps({"nodes": self.nodes}, indent=2)

    def drawn(self, language: str) -> str:
        """The plan as text of a graph: `mermaid` or `dot`."""
        if language not in LANGUAGES:
            raise InvalidRequestError(
                f"a plan is drawn in one of {', '.join(LANGUAGES)}, not {language!r}"
            )
        lines = _mermaid(self.nodes) if language == "mermaid" else _dot(self.nodes)
        return "\n".join(lines) + "\n"


def _described(
    node: StreamNode | SinkNode, ids: Mapping[int, int], above: list[int], parallelism: int
) -> Mapping[str, Any]:
    """One node. A node that is not a stateful operator has the parallelism of its first input."""
    pact = _pact(node)
    label = _label(node)
    described: dict[str, Any] = {
        "id": ids[id(node)],
        "type": label,
        "pact": pact,
        "contents": label,
        "parallelism": above[0] if above else 0,
    }
    if isinstance(node, OperatorNode):
        described["parallelism"] = node.parallelism or parallelism
        described["uid"] = node.uid
        keyed = [each.keys for each in node.inputs if each.keys is not None]
        described["keys"] = list(keyed[0].columns) if keyed else []
        described["queryable_states"] = [claim.queryable_name for claim in name_claims(node)]
    if node.upstreams:
        described["predecessors"] = [
            {
                "id": ids[id(upstream)],
                "ship_strategy": _strategy(node, number),
                "side": _SIDES[min(number, 1)],
            }
            for number, upstream in enumerate(node.upstreams)
        ]
    return described


def _pact(node: StreamNode | SinkNode) -> str:
    if isinstance(node, SourceNode):
        return _SOURCE
    return _SINK if _is_end(node) else _OPERATOR


def _is_end(node: StreamNode | SinkNode) -> bool:
    """True for sinks and for queryable states, which have no output."""
    return isinstance(node, SinkNode) or (
        isinstance(node, OperatorNode) and node.output_type is None
    )


def _label(node: StreamNode | SinkNode) -> str:
    match node:
        case SourceNode():
            return f"Source: {', '.join(node.columns.names)}"
        case SinkNode():
            return f"Sink: {node.name}"
        case OperatorNode():
            return f"Sink: {node.name}" if _is_end(node) else node.name
        case SideOutputNode():
            return f"Side output {node.index}"
        case _:
            return node.kind


def _strategy(node: StreamNode | SinkNode, number: int) -> str:
    """How the rows of an input reach a node."""
    if isinstance(node, OperatorNode):
        return "BROADCAST" if node.inputs[number].keys is None else "HASH"
    kind = str(getattr(node, "kind", "")).upper()
    return kind if kind in _SHIPPED else "FORWARD"


def _mermaid(nodes: tuple[Mapping[str, Any], ...]) -> Iterator[str]:
    yield "flowchart LR"
    for node in nodes:
        text = _text(node, "<br>").replace('"', "#quot;")
        opening, closing = ("[(", ")]") if node.get("queryable_states") else ("[", "]")
        yield f'    n{node["id"]}{opening}"{text}"{closing}'
    for source, target, strategy in _edges(nodes):
        yield f"    n{source} -->|{strategy}| n{target}"


def _dot(nodes: tuple[Mapping[str, Any], ...]) -> Iterator[str]:
    yield "digraph job {"
    yield "    rankdir=LR;"
    for node in nodes:
        text = _text(node, "\n").replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        shape = "cylinder" if node.get("queryable_states") else "box"
        yield f'    n{node["id"]} [label="{text}", shape={shape}];'
    for source, target, strategy in _edges(nodes):
        yield f'    n{source} -> n{target} [label="{strategy}"];'
    yield "}"


def _text(node: Mapping[str, Any], line_break: str) -> str:
    """Label of a node: its type, its subtasks and its queryable states."""
    lines = [str(node["type"])]
    if "uid" in node:
        keys = f" by {', '.join(node['keys'])}" if node["keys"] else ""
        lines.append(f"{node['parallelism']} subtasks{keys}")
    lines += [f"queryable: {name}" for name in node.get("queryable_states", ())]
    return line_break.join(lines)


def _edges(nodes: tuple[Mapping[str, Any], ...]) -> Iterator[tuple[int, int, str]]:
    for node in nodes:
        for predecessor in node.get("predecessors", ()):
            yield predecessor["id"], node["id"], predecessor["ship_strategy"]
