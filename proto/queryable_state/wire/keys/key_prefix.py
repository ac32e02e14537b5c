"""Prefixes of keys as prefixes of their bytes.

An encoded key begins with `key_prefix(value, type)` if and only if the key begins with
`value`: the beginning of a string or of binary, or the first complete fields of a row or
tuple.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from queryable_state.wire.errors import InvalidRequestError, KeyTypeError, Reason
from queryable_state.wire.json_text import key_from_json
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.schema.type_model import Kind, TypeInfo

if TYPE_CHECKING:
    from collections.abc import Sized

# Length of the terminator of a string or binary.
_END_BYTES = 2


def key_prefix(value: Any, key_type: TypeInfo) -> bytes:
    """The common prefix of the encoded keys that begin with `value`; empty: all keys.

    `value` is the beginning of a string or binary; of a row or tuple it is a tuple or list of
    the first fields, for rows also a mapping. Raises KeyTypeError for a value that is not a
    beginning of the type, InvalidRequestError (UNSUPPORTED) for other types.
    """
    if key_type.kind in (Kind.STRING, Kind.BINARY):
        if value is None:
            raise KeyTypeError(f"a prefix of a {key_type} key cannot be null: null begins no key")
        return KeyCodec(key_type).encode(value)[:-_END_BYTES]
    _check_has_prefixes(key_type)
    if not isinstance(value, (tuple, list, Mapping)):
        raise KeyTypeError(
            f"a prefix of a {key_type} key is a tuple of its first fields, "
            f"not a {type(value).__name__}"
        )
    first = _first_fields(value, key_type)
    return b"" if first is None else KeyCodec(first).encode(value)


def key_prefix_from_json(text: str, key_type: TypeInfo) -> bytes:
    """Same as `key_prefix`, from a JSON text: a string, or an array of the first fields."""
    if key_type.kind in (Kind.STRING, Kind.BINARY):
        return key_prefix(key_from_json(text, key_type), key_type)
    _check_has_prefixes(key_type)
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        # Raises the error of the text.
        parsed = key_from_json(text, key_type)
    if not isinstance(parsed, (list, dict)):
        raise KeyTypeError(
            f"a prefix of a {key_type} key is a JSON array of its first fields, not {text[:80]}"
        )
    first = _first_fields(parsed, key_type)
    return b"" if first is None else KeyCodec(first).encode(key_from_json(text, first))


def _check_has_prefixes(key_type: TypeInfo) -> None:
    if key_type.kind not in (Kind.ROW, Kind.TUPLE):
        raise InvalidRequestError(
            f"keys of type {key_type} have no prefixes: give a start and an end",
            reason=Reason.UNSUPPORTED,
        )


def _first_fields(value: Sized, key_type: TypeInfo) -> TypeInfo | None:
    """The type of the first fields in `value`; None if there are none."""
    if len(value) > len(key_type.fields):
        raise KeyTypeError(
            f"a prefix of a {key_type} key has at most {len(key_type.fields)} fields, "
            f"not {len(value)}"
        )
    return replace(key_type, fields=key_type.fields[: len(value)]) if value else None
