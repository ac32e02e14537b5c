"""Conversion of wire messages into dataclasses whose fields have the same names."""

from __future__ import annotations

from dataclasses import fields
from typing import Any


def scalars(kind: type, message: Any) -> dict[str, Any]:
    """The fields of a dataclass with their values in a message."""
    return {field.name: getattr(message, field.name) for field in fields(kind)}


def name_of(enum: Any, number: int) -> str:
    """The name of an enum's value; the number if this client does not know it."""
    return str(enum.Name(number)) if number in enum.values() else str(number)
