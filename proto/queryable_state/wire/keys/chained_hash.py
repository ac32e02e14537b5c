"""Hashes of keys with parts, as each of Spark's hash functions chains them.

For rows, tuples and lists the hash of a part is the seed of the next. A null has the seed as its
hash.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from queryable_state.wire.keys.window_keys import key_values
from queryable_state.wire.schema.type_model import Kind, TypeInfo, given

SEED = 42
"""The seed of the hash of a whole key."""

Hash = Callable[[Any, int], int]
"""Function from key and seed to the hash, both unsigned numbers of the hash function's size."""

HashOf = Callable[[TypeInfo], Hash]
"""Function from the type of a key without parts to its hash function."""


def chained_hash(info: TypeInfo, scalar_hash: HashOf) -> Hash:
    """The hash function of a key type, for keys that its KeyCodec has accepted.

    Raises what `scalar_hash` raises for a part of the type.
    """
    match info.kind:
        case Kind.ROW | Kind.TUPLE:
            hash_value = _of_fields(info, scalar_hash)
        case Kind.LIST:
            hash_value = _of_elements(chained_hash(given(info.element), scalar_hash))
        case _:
            hash_value = scalar_hash(info)
    if not info.nullable:
        return hash_value
    return lambda value, seed: seed if value is None else hash_value(value, seed)


def _of_fields(info: TypeInfo, scalar_hash: HashOf) -> Hash:
    hashes = tuple(chained_hash(field.type, scalar_hash) for field in info.fields)
    values_of = key_values(info, "key")

    def hash_key(value: Any, seed: int) -> int:
        for hash_field, field in zip(hashes, values_of(value), strict=True):
            seed = hash_field(field, seed)
        return seed

    return hash_key


def _of_elements(hash_element: Hash) -> Hash:
    def hash_key(value: Any, seed: int) -> int:
        for each in value:
            seed = hash_element(each, seed)
        return seed

    return hash_key
