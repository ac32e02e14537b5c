"""Cached form of state values in a task, between their write and the end of the batch.

A function reads the decoded form of the stored bytes, also for a value written in this batch. So a
task caches a value of an immutable type as a Python object in normal form, and a value of a
mutable type (a list, a map, a pickle, a row with one of these) as bytes. Each read of a mutable
value creates a new object, so changing it in place does not change the state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from queryable_state.wire.schema.type_model import Kind
from queryable_state.wire.values.normal_form import is_mutable, normaliser

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.wire.values.value_codec import ValueCodec


@dataclass(frozen=True, slots=True)
class CacheCodec:
    """Conversions between values, cached values and stored bytes."""

    hold: Callable[[Any], Any]
    """Written value to cached value; SerializationError if it is None or not of the type."""
    give: Callable[[Any], Any]
    """Cached value to the value that a function reads."""
    take: Callable[[bytes], Any]
    """Stored bytes to cached value."""
    data: Callable[[Any], bytes]
    """Cached value to stored bytes."""

    @staticmethod
    def of(codec: ValueCodec) -> CacheCodec:
        """The conversions of the codec's type."""
        if codec.type_info.kind == Kind.PICKLED:
            return _of_pickles(codec)
        if is_mutable(codec.type_info):
            return CacheCodec(codec.encode, codec.decode, _same, _same)
        hold = normaliser(codec.type_info, codec.read_back)
        return CacheCodec(hold, _same, codec.decode, codec.encode)


def _same(value: Any) -> Any:
    return value


_ATOMS = frozenset((bool, int, float, str, bytes, type(None)))


def _of_pickles(codec: ValueCodec) -> CacheCodec:
    """Conversions of pickled values: atoms and tuples of atoms are cached without pickling.

    This makes plain accumulators such as (sum, count) cheap. Such a value is cached inside a
    one-element tuple, which distinguishes it from pickle bytes.
    """

    def hold(value: Any) -> Any:
        kind = value.__class__
        if kind in _ATOMS or (kind is tuple and _ATOMS.issuperset(map(type, value))):
            return (value,)
        return codec.encode(value)

    def give(held: Any) -> Any:
        return held[0] if held.__class__ is tuple else codec.decode(held)

    def data(held: Any) -> bytes:
        return codec.encode(held[0]) if held.__class__ is tuple else held

    return CacheCodec(hold, give, _same, data)
