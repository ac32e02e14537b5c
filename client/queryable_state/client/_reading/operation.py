"""What a query asks of its keys: their values, entries of their maps, sizes ..."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from queryable_state.client._reading.elements import MapEntry, Presence, Size
from queryable_state.client._reading.pending_results import FutureResults, PresenceResults
from queryable_state.client._reading.states import STATE_TYPES
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import InvalidRequestError, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from queryable_state.client._reading.decode_context import DecodeContext
    from queryable_state.wire.located_state import LocatedState
    from queryable_state.wire.state_codecs import StateCodecs


class EntryKey(bytes):
    """A wire key together with the encoded map key of the entry that is meant.

    It is routed, kept and asked again for like any other wire key.
    """

    element: bytes


@dataclass(frozen=True, eq=False, slots=True)
class Operation:
    """One kind of query. Those there are stand below, and are told apart by identity."""

    read: query_pb2.ReadKind.ValueType | None
    """None: the whole value, as a state of its kind is read."""

    answer: Callable[[bytes, DecodeContext], Any] | None
    """Makes what the caller gets of one value; None: the state of the registered kind."""

    of_entries: bool = False
    """Its keys are pairs of key and map key; as wire keys `EntryKey`."""

    results: type[FutureResults] = FutureResults
    """Of single queries."""

    def read_kind(self, located: LocatedState) -> query_pb2.ReadKind.ValueType:
        """How it is asked of a state."""
        return located.read_kind if self.read is None else self.read

    def answer_type(self, located: LocatedState) -> Callable[[bytes, DecodeContext], Any]:
        """What makes an answer of one value of a state."""
        return STATE_TYPES[located.registration.kind] if self.answer is None else self.answer

    def encoder(self, codecs: StateCodecs, located: LocatedState) -> Callable[[Any], bytes]:
        """What makes a wire key; `InvalidRequestError` where the state has no entries."""
        wire_key = codecs.key_groups.wire_key
        if not self.of_entries:
            return wire_key
        if codecs.map_key is None:
            kind = registration_pb2.StateKind.Name(located.registration.kind)
            raise InvalidRequestError(
                f"{located.describe()} is of kind {kind}: only a MAP has entries; leave out the "
                "map key, or read the whole value",
                reason=Reason.UNSUPPORTED,
            )
        element = codecs.map_key.encode

        def entry_key(pair: tuple[Any, Any]) -> EntryKey:
            key = EntryKey(wire_key(pair[0]))
            key.element = element(pair[1])
            return key

        return entry_key

    def encoder_of_many(
        self, codecs: StateCodecs, encode: Callable[[Any], bytes]
    ) -> Callable[[Sequence[Any]], list[bytes]]:
        """What makes the wire keys of many, of which `encode` makes one."""
        if not self.of_entries:
            return codecs.key_groups.wire_keys
        return lambda asked: list(map(encode, asked))

    def decoded(self, key: bytes, codecs: StateCodecs) -> Any:
        """What the caller asked for, of the wire key that `codecs` made of it."""
        whole = codecs.key_groups.decode_key(key)
        if not isinstance(key, EntryKey):
            return whole
        assert codecs.map_key is not None
        return whole, codecs.map_key.decode_all(key.element)

    def describe(self, asked: Any) -> str:
        """What was asked for, for error texts."""
        return f"entry {asked[1]!r} of key {asked[0]!r}" if self.of_entries else f"key {asked!r}"


VALUE = Operation(None, None)
ENTRY = Operation(query_pb2.ENTRY, MapEntry, of_entries=True)
EXISTS = Operation(query_pb2.EXISTS, Presence, results=PresenceResults)
ENTRY_EXISTS = Operation(query_pb2.EXISTS, Presence, of_entries=True, results=PresenceResults)
SIZE = Operation(query_pb2.SIZE, Size)
