"""Execution plan of a job: its graph as JSON in the form of Flink's plan, or as a drawing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from queryable_state.streaming.graph.job_graph import name_claims
from queryable_state.streaming.graph.nodes import (
    FrameNode,
    OperatorNode,
    SideOutputNode,
    SinkNode,
    SourceNode,
    TransformNode,
)
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from queryable_state.streaming.graph.job_graph import JobGraph
    from queryable_state.streaming.graph.nodes import StreamNode

    Node: TypeAlias = StreamNode | SinkNode

LANGUAGES: Final = ("mermaid", "dot")

_SOURCE, _OPERATOR, _SINK = "Data Source", "Operator", "Data Sink"
_SHIPPED: Final = {
    "broadcast": "BROADCAST",
    "global": "GLOBAL",
    "partition_custom": "CUSTOM",
    "rebalance": "REBALANCE",
    "rescale": "RESCALE",
    "shuffle": "SHUFFLE",
}
"""Flink's ship strategies, by the kind of the node that moves the elements."""
_EDGES: Final = (*_SHIPPED, "forward", "key_by", "union")
"""Kinds of nodes that only pass elements on."""
_SIDES = ("first", "second")


@dataclass(frozen=True)
class ExecutionPlan:
    """The operators of a job, upstream ones first, with Flink's field names.

    As in Flink, a union, a partitioning or a side output is no operator: an operator behind it has
    the operators before it as predecessors.
    """

    nodes: tuple[Mapping[str, Any], ...]

    @staticmethod
    def of(graph: JobGraph, parallelism: int) -> ExecutionPlan:
        """The plan of a graph; `parallelism` is that of operators that set none."""
        partitions: dict[int, int] = {}
        for node in graph.nodes:
            above = [partitions[id(upstream)] for upstream in node.upstreams]
            partitions[id(node)] = _parallelism(node, above, parallelism)
        shown = [node for node in graph.nodes if not _is_edge(node)]
        ids = {id(node): number for number, node in enumerate(shown, 1)}
        return ExecutionPlan(tuple(_described(node, ids, partitions[id(node)]) for node in shown))

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


def _is_edge(node: Node) -> bool:
    """True if the node only passes elements on."""
    return isinstance(node, SideOutputNode) or (isinstance(node, FrameNode) and node.kind in _EDGES)


def _parallelism(node: Node, above: list[int], parallelism: int) -> int:
    """Number of partitions; 0: Spark decides. `above` are those of the upstreams.

    Spark's union has the partitions of all its inputs.
    """
    if isinstance(node, OperatorNode):
        return node.parallelism or parallelism
    if isinstance(node, FrameNode) and node.kind in _SHIPPED:
        return 1 if node.kind == "global" else parallelism
    if isinstance(node, SourceNode | TransformNode | SinkNode) and node.parallelism:
        return node.parallelism
    return sum(above) if all(above) else 0


def _described(node: Node, ids: Mapping[int, int], parallelism: int) -> Mapping[str, Any]:
    label = _label(node)
    described: dict[str, Any] = {
        "id": ids[id(node)],
        "type": label,
        "pact": _pact(node),
        "contents": getattr(node, "description", None) or label,
        "parallelism": parallelism,
    }
    if isinstance(node, OperatorNode):
        described["uid"] = node.uid
        keyed = [each.keys for each in node.inputs if each.keys is not None]
        described["keys"] = list(keyed[0].columns) if keyed else []
        described["queryable_states"] = [claim.queryable_name for claim in name_claims(node)]
    if node.upstreams:
        described["predecessors"] = [
            {"id": ids[id(source)], "ship_strategy": strategy, "side": _SIDES[min(number, 1)]}
            for number, upstream in enumerate(node.upstreams)
            for source, strategy in _sources(upstream, _own_strategy(node, number))
        ]
    return described


def _sources(node: StreamNode, strategy: str | None) -> Iterator[tuple[StreamNode, str]]:
    """The operators that supply a stream, with the strategy that ships their elements.

    The last partitioning before the reader decides, which is `strategy` if it is given.
    """
    if not _is_edge(node):
        yield node, strategy or "FORWARD"
        return
    own = _SHIPPED.get(node.kind) if isinstance(node, FrameNode) else None
    for upstream in node.upstreams:
        yield from _sources(upstream, strategy or own)


def _own_strategy(node: Node, number: int) -> str | None:
    """The strategy by which a stateful operator reads an input; None for other nodes."""
    if not isinstance(node, OperatorNode):
        return None
    return "BROADCAST" if node.inputs[number].is_broadcast else "HASH"


def _pact(node: Node) -> str:
    if isinstance(node, SourceNode):
        return _SOURCE
    return _SINK if _is_end(node) else _OPERATOR


def _is_end(node: Node) -> bool:
    """True for sinks and for queryable states, which have no output."""
    return isinstance(node, SinkNode) or (
        isinstance(node, OperatorNode) and node.output_type is None
    )


def _label(node: Node) -> str:
    match node:
        case SourceNode():
            return f"Source: {node.given_name or ', '.join(node.columns.names)}"
        case SinkNode():
            return f"Sink: {node.name}"
        case OperatorNode():
            return f"Sink: {node.name}" if _is_end(node) else node.name
        case TransformNode():
            return node.name
        case FrameNode(kind="project"):
            return "Projection"
        case _:
            return str(getattr(node, "kind", "side output"))


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
