"""Codecs of one state, for its records and for whole values."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from queryable_state.v1 import registration_pb2
from queryable_state.wire.errors import CorruptDataError, InvalidRequestError
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.keys.key_groups import KeyGroups
from queryable_state.wire.keys.pending_timers import decode_timers
from queryable_state.wire.operator_state import OPERATOR_KINDS, SubtaskKeys
from queryable_state.wire.schema.type_model import Kind, TypeInfo
from queryable_state.wire.values.value_codec import ValueCodec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from queryable_state.wire.values.pickled import Pickle

StateKind = registration_pb2.StateKind


class StateCodecs:
    """Codecs of the keys and values of a registered state. Thread-safe.

    `pickler` and `unpickle` as in `ValueCodec`. `value_type`, if it is the newest registered
    type, gives the serializers and the Python classes of decoded values. `ranges` are the key
    groups of each subtask, first and last, by index; only the keys of operator state need them.
    """

    def __init__(
        self,
        registration: registration_pb2.StateRegistration,
        *,
        pickler: Pickle | None = None,
        unpickle: bool = False,
        value_type: TypeInfo | None = None,
        ranges: Iterable[tuple[int, int]] = (),
    ) -> None:
        self.kind = registration.kind
        self._ranges = tuple(ranges)
        self.key_groups: KeyGroups | SubtaskKeys
        """Wire keys: of the subtasks for operator state."""
        if self.kind in OPERATOR_KINDS:
            self.key_groups = SubtaskKeys(self._ranges, registration.max_parallelism)
        else:
            self.key_groups = KeyGroups(
                TypeInfo.from_proto(registration.key_type),
                registration.max_parallelism,
                registration.partitioner,
            )
        self._registration = registration
        self._pickler = pickler
        self._unpickle = unpickle
        self._value_type = value_type
        if registration.value_types:
            # Raises for an unreadable type now, not at the first value.
            self.value  # noqa: B018
        self.map_key: KeyCodec | None = None
        """Codec of the keys of a MAP or BROADCAST; None for other kinds."""
        if self.kind in (StateKind.MAP, StateKind.BROADCAST):
            self.map_key = KeyCodec(TypeInfo.from_proto(registration.map_key_type))
        self.accumulator: ValueCodec | None = None
        """Codec of an AGGREGATING accumulator; None for other kinds."""
        if registration.accumulator_types:
            types = {v.version: TypeInfo.from_proto(v.type) for v in registration.accumulator_types}
            self.accumulator = ValueCodec(types, max(types), pickler=pickler, unpickle=unpickle)

    @cached_property
    def value(self) -> ValueCodec:
        """Codec of a record's value; of a chunk for a LIST.

        Raises `InvalidRequestError` for an aggregating state that is not queryable, which stores
        only the accumulator, and for timers.
        """
        registration = self._registration
        types = {v.version: TypeInfo.from_proto(v.type) for v in registration.value_types}
        if self.kind == StateKind.TIMER:
            raise InvalidRequestError(
                f"state {registration.state_name!r} keeps timers, which have no values: read them "
                "with get_timers"
            )
        if not types:
            raise InvalidRequestError(
                f"state {registration.state_name!r} keeps no value to read: it stores only "
                "accumulators, because it is not queryable"
            )
        if types[max(types)] == self._value_type:
            types[max(types)] = self._value_type
        if self.kind == StateKind.LIST:
            types = {n: TypeInfo(Kind.LIST, element=info) for n, info in types.items()}
        return ValueCodec(types, max(types), pickler=self._pickler, unpickle=self._unpickle)

    def delivering(self, value_type: TypeInfo) -> StateCodecs:
        """The same codecs with the serializers and the Python classes of this type."""
        return StateCodecs(
            self._registration,
            pickler=self._pickler,
            unpickle=self._unpickle,
            value_type=value_type,
            ranges=self._ranges,
        )

    def decode_records(self, elements: Sequence[bytes], values: Sequence[bytes]) -> Any:
        """The whole value of a key: a `list` for a LIST and for operator lists, a `dict` for a MAP
        and for broadcast state, a `list` of `PendingTimer` for a TIMER, else the value.

        `elements` and `values` are aligned, in store order, of one key and namespace; not
        empty unless the value is a list or a dict.
        """
        if self.kind == StateKind.LIST:
            return decode_list(values, self.value)
        if self.kind == StateKind.TIMER:
            return decode_timers(elements)
        if self.kind in (StateKind.OPERATOR_LIST, StateKind.OPERATOR_UNION):
            return list(map(self.value.decode, values))
        if self.map_key is not None:
            return decode_map(elements, values, self.map_key, self.value)
        if not values:
            raise CorruptDataError("a key has no record to read")
        return self.value.decode(values[0])


def decode_list(values: Iterable[bytes], codec: ValueCodec) -> list[Any]:
    """Decodes the chunks of a list with `codec`, a codec of lists."""
    elements: list[Any] = []
    for value in values:
        chunk = codec.decode(value)
        if chunk is None:
            raise CorruptDataError("a chunk of a list is null")
        elements.extend(chunk)
    return elements


def decode_map(
    elements: Sequence[bytes], values: Sequence[bytes], key_codec: KeyCodec, codec: ValueCodec
) -> dict[Any, Any]:
    """Decodes the entries of a map from aligned keys and values."""
    if len(elements) != len(values):
        raise CorruptDataError(f"{len(elements)} keys of a map come with {len(values)} values")
    return {
        key_codec.decode_all(element): codec.decode(value)
        for element, value in zip(elements, values, strict=True)
    }
