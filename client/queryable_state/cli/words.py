"""Words of a command line as keys of a state."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from queryable_state.wire.json_text import key_from_json
from queryable_state.wire.schema.type_model import Kind, TypeInfo

if TYPE_CHECKING:
    from collections.abc import Iterable

# What JSON writes in quotes, so that a word without them can be meant.
_QUOTED = (Kind.STRING, Kind.BINARY, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ)


def key_of(word: str, key_type: TypeInfo) -> Any:
    """The key a word says: its JSON, or the word itself where JSON would need quotes.

    A word in quotes is JSON always. `InvalidRequestError` for what is no JSON,
    `KeyTypeError` for what is of another type.
    """
    if key_type.kind in _QUOTED and not (len(word) > 1 and word[0] == word[-1] == '"'):
        word = json.dumps(word)
    return key_from_json(word, key_type)


def prefix_of(word: str, key_type: TypeInfo) -> Any:
    """The beginning of keys a word says: of a string, or an array of the first fields."""
    if key_type.fields:
        try:
            given = json.loads(word)
        except ValueError:
            given = None
        if isinstance(given, list) and len(given) < len(key_type.fields):
            first = key_type.fields[: len(given)]
            return key_from_json(word, TypeInfo(key_type.kind, fields=first)) if first else ()
    return key_of(word, key_type)


def keys_of_lines(lines: Iterable[str], key_type: TypeInfo) -> list[Any]:
    """A key a line; empty lines are none."""
    return [key_of(word, key_type) for line in lines if (word := line.rstrip("\r\n"))]
