"""Check of a request's body against its declared schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.wire.errors import InvalidRequestError, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

_TYPES = {"string": (str, "a text"), "boolean": (bool, "true or false"), "array": (list, "a list")}


def check_body(body: Any, schema: Mapping[str, Any]) -> None:
    """Raises `InvalidRequestError` unless the body is an object with the fields of the schema.

    Checks the types of the fields, not those within lists.
    """
    properties: Mapping[str, Any] = schema["properties"]
    if not isinstance(body, dict):
        raise InvalidRequestError(f"the body is not a JSON object with {', '.join(properties)}")
    for name in schema["required"]:
        if name not in body:
            raise InvalidRequestError(f"the body lacks {name!r}")
    for name, value in body.items():
        if name not in properties:
            raise InvalidRequestError(
                f"the body has {shown(name)!r}, which is none of: {', '.join(properties)}"
            )
        wanted, text = _TYPES[properties[name]["type"]]
        if not isinstance(value, wanted):
            raise InvalidRequestError(f"{name} of the body must be {text}")
        if isinstance(value, list) and len(value) < properties[name].get("minItems", 0):
            raise InvalidRequestError(f"{name} of the body is empty")
