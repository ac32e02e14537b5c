"""JSON schemas of answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.server.web.api.proto_json import message_schema

if TYPE_CHECKING:
    from google.protobuf.message import Message

COMPONENTS: dict[str, Any] = {
    "Error": {
        "type": "object",
        "properties": {
            "error": {
                "type": "object",
                "properties": {
                    "reason": {"type": "string"},
                    "message": {"type": "string"},
                    "retry_after_ms": {"type": "integer", "minimum": 0},
                    "candidates": {"type": "array", "items": {"type": "string"}},
                    "complete_since_batch": {"type": "integer"},
                },
                "required": ["reason", "message", "retry_after_ms", "candidates"],
            }
        },
        "required": ["error"],
    }
}
"""Schemas by name, which paths refer to; `of` adds those of messages."""

ERROR = {"$ref": "#/components/schemas/Error"}
TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
FLAG = {"type": "boolean"}
ANYTHING: dict[str, Any] = {}
WINDOW = {
    "type": "object",
    "description": "start_ms and end_ms, or start_us and end_us if they are no whole milliseconds.",
    "properties": {
        name: {"type": "integer"} for name in ("start_ms", "end_ms", "start_us", "end_us")
    },
}


def of(message: type[Message]) -> dict[str, Any]:
    """The schema of a message."""
    return message_schema(message.DESCRIPTOR, COMPONENTS)


def rows(items: dict[str, Any]) -> dict[str, Any]:
    """The schema of a list."""
    return {"type": "array", "items": items}


def fields(*optional: str, **properties: dict[str, Any]) -> dict[str, Any]:
    """The schema of an object; all fields are required but the `optional` ones."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}
