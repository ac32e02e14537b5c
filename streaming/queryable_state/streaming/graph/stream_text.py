"""One-line texts of streams for notebooks and logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from queryable_state.streaming.graph.nodes import OperatorNode, SourceNode, TransformNode

if TYPE_CHECKING:
    from queryable_state.streaming.graph.elements import Columns
    from queryable_state.streaming.graph.keys import KeySelector
    from queryable_state.streaming.graph.nodes import StreamNode

_MOST_COLUMNS: Final = 12


def node_text(node: StreamNode) -> str:
    """Kind, name and uid of a node, then the parallelism of a stateful operator."""
    if isinstance(node, SourceNode):
        return f"source {node.given_name!r}" if node.given_name else "source"
    if not isinstance(node, OperatorNode | TransformNode):
        return getattr(node, "kind", "side output")
    name = f" {node.given_name!r}" if node.given_name else ""
    if isinstance(node, TransformNode):
        return f"{node.kind}{name}"
    parallelism = node.parallelism or "of the environment"
    return f"{node.kind}{name}, uid {node.uid}, parallelism {parallelism}"


def columns_text(columns: Columns) -> str:
    """The type of bare elements, or names and types of the columns; `?` is an unsupported type."""
    types = [
        f"{name} {'?' if isinstance(info, Exception) else info}"
        for name, info in columns.types.items()
    ]
    if columns.bare:
        return f"elements {types[0].partition(' ')[2]}"
    more = f", and {len(types) - _MOST_COLUMNS} more" if len(types) > _MOST_COLUMNS else ""
    return f"columns {', '.join(types[:_MOST_COLUMNS])}{more}"


def stream_text(node: StreamNode) -> str:
    """A stream: its node and its elements."""
    return f"{node_text(node)}, {columns_text(node.columns)}"


def keyed_text(node: StreamNode, keys: KeySelector, columns: Columns) -> str:
    """A keyed stream: its node, its key and its elements."""
    if keys.is_pickled:
        key = "of unknown type"
    elif keys.is_computed:
        key = f"computed {keys.key_type}"
    else:
        key = ", ".join(f"{field.name} {field.type}" for field in keys.fields)
    return f"{node_text(node)}, key {key}, {columns_text(columns)}"
