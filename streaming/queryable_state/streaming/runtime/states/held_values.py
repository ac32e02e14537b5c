"""Values of one type between their writes and the end of the batch.

A function reads what the stored bytes would give, whether the value was stored by an
earlier batch or written in this one. So a task holds a value of an immutable type as
the object in its normal form, and one of a type that can be changed in place (a list, a
map, a pickle, a row with one of these) as its bytes: each read makes a new object, and
what a function does to an object that it wrote or read never changes the state.
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
class HeldValues:
    """The conversions between values, held values and stored bytes."""

    hold: Callable[[Any], Any]
    """The held value of a written one. SerializationError if it is None or not of the type."""
    give: Callable[[Any], Any]
    """What a function reads of a held value."""
    take: Callable[[bytes], Any]
    """The held value of stored bytes."""
    data: Callable[[Any], bytes]
    """The bytes to store of a held value."""

    @staticmethod
    def of(codec: ValueCodec) -> HeldValues:
        """The conversions of the codec's type."""
        if codec.type_info.kind == Kind.PICKLED:
            return _of_pickles(codec)
        if is_mutable(codec.type_info):
            return HeldValues(codec.encode, codec.decode, _same, _same)
        hold = normaliser(codec.type_info, codec.read_back)
        return HeldValues(hold, _same, codec.decode, codec.encode)


def _same(value: Any) -> Any:
    return value


_ATOMS = frozenset((bool, int, float, str, bytes, type(None)))


def _of_pickles(codec: ValueCodec) -> HeldValues:
    """Pickles; but an atom, or a tuple of atoms, which a pickle gives back as it is, as itself.

    That makes plain accumulators as (sum, count) cheap. It is held in a tuple of one, which
    tells it from a pickle.
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

    return HeldValues(hold, give, _same, data)
