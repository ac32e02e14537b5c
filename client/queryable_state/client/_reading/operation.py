"""Operations of lookups: read a value, a map entry or a slice, check presence, get a size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from queryable_state.client._reading.elements import ListSlice, MapEntry, Presence, Size
from queryable_state.client._reading.pending_results import FutureResults, PresenceResults
from queryable_state.client._reading.state_types import STATE_TYPES
from queryable_state.client._reading.timed.key_windows import KeyWindows, newest_window
from queryable_state.client._reading.timed.missing_results import TimersResults, WindowsResults
from queryable_state.client._reading.timed.pending_timers import PendingTimers
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import InvalidRequestError, Reason
from queryable_state.wire.keys.time_window import check_window

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from queryable_state.client._reading.states import DecodeContext
    from queryable_state.wire.located_state import LocatedState
    from queryable_state.wire.state_codecs import StateCodecs


class EntryKey(bytes):
    """A wire key with the encoded map key of one entry.

    It is routed, batched and retried like any other wire key.
    """

    element: bytes


class SliceKey(bytes):
    """A wire key with the range of one slice; see `EntryKey`."""

    range: query_pb2.ListRange


class WindowsKey(bytes):
    """A wire key with the range of windows to read; see `EntryKey`."""

    windows: query_pb2.WindowRange


@dataclass(frozen=True, eq=False, slots=True)
class Operation:
    """One kind of lookup. The instances are the constants below, compared by identity."""

    read: query_pb2.ReadKind.ValueType | None
    """Kind of read on the wire; None: the whole value, by the kind of the state."""

    answer: Callable[[bytes, DecodeContext], Any] | None
    """Constructor of the result for one value; None: the state type of the registered kind."""

    of_entries: bool = False
    """True if its keys are pairs of key and map key, encoded as `EntryKey`."""

    of_slices: bool = False
    """True if its keys are pairs of key and `ListRange`, encoded as `SliceKey`."""

    of_windows: bool = False
    """True if its keys are pairs of key and `WindowRange`, encoded as `WindowsKey`."""

    of_timers: bool = False
    """True if it reads timers only."""

    names_window: bool = True
    """False if it reads every window of a state with windows, unless the caller names one."""

    results: type[FutureResults] = FutureResults
    """Pending results of single-key lookups."""

    def read_kind(self, located: LocatedState) -> query_pb2.ReadKind.ValueType:
        """Returns the kind of read on the wire for a state."""
        return located.read_kind if self.read is None else self.read

    def answer_type(self, located: LocatedState) -> Callable[[bytes, DecodeContext], Any]:
        """Returns the constructor of the result for one value of a state."""
        return STATE_TYPES[located.registration.kind] if self.answer is None else self.answer

    @property
    def of_pairs(self) -> bool:
        """True if each key comes with what to read of its value."""
        return self.of_entries or self.of_slices or self.of_windows

    def check_window(self, located: LocatedState, namespace: bytes) -> None:
        """Raises `InvalidRequestError` if the operation needs a window and has none, or has one
        that the state cannot have. `namespace` is encoded; empty: no window."""
        if self.names_window or namespace:
            check_window(located.registration, namespace, self.read_kind(located))

    def encoder(self, codecs: StateCodecs, located: LocatedState) -> Callable[[Any], bytes]:
        """Returns the encoder of one key; `InvalidRequestError` if the state has no entries, or
        no slices."""
        wire_key = codecs.key_groups.wire_key
        if self.of_slices:
            return _slice_encoder(wire_key, located)
        if self.of_windows:
            return _windows_encoder(wire_key)
        if self.of_timers:
            _check_timers(located)
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
        """Returns the encoder of many keys; `encode` encodes one."""
        if not self.of_pairs:
            return codecs.key_groups.wire_keys
        return lambda keys: list(map(encode, keys))

    def decoded(self, key: bytes, codecs: StateCodecs) -> Any:
        """Decodes a wire key encoded by `codecs` to the key that the caller gave."""
        whole = codecs.key_groups.decode_key(key)
        if isinstance(key, SliceKey):
            return whole, key.range
        if isinstance(key, WindowsKey):
            return whole, key.windows
        if not isinstance(key, EntryKey):
            return whole
        assert codecs.map_key is not None
        return whole, codecs.map_key.decode_all(key.element)

    def describe(self, key: Any) -> str:
        """Names the key, or the map entry, for error texts."""
        if self.of_slices or self.of_windows:
            return f"key {key[0]!r}"
        return f"entry {key[1]!r} of key {key[0]!r}" if self.of_entries else f"key {key!r}"


def _slice_encoder(
    wire_key: Callable[[Any], bytes], located: LocatedState
) -> Callable[[tuple[Any, query_pb2.ListRange]], SliceKey]:
    if located.registration.kind != registration_pb2.LIST:
        kind = registration_pb2.StateKind.Name(located.registration.kind)
        raise InvalidRequestError(
            f"{located.describe()} is of kind {kind}: only a LIST has slices; read the whole value",
            reason=Reason.UNSUPPORTED,
        )

    def slice_key(pair: tuple[Any, query_pb2.ListRange]) -> SliceKey:
        key = SliceKey(wire_key(pair[0]))
        key.range = pair[1]
        return key

    return slice_key


def _windows_encoder(
    wire_key: Callable[[Any], bytes],
) -> Callable[[tuple[Any, query_pb2.WindowRange]], WindowsKey]:
    def windows_key(pair: tuple[Any, query_pb2.WindowRange]) -> WindowsKey:
        key = WindowsKey(wire_key(pair[0]))
        key.windows = pair[1]
        return key

    return windows_key


def _check_timers(located: LocatedState) -> None:
    if located.registration.kind != registration_pb2.TIMER:
        kind = registration_pb2.StateKind.Name(located.registration.kind)
        raise InvalidRequestError(
            f"{located.describe()} is of kind {kind}: the timers of an operator are the state "
            "named by its uid and '.timers', which list_states shows with kind TIMER",
            reason=Reason.UNSUPPORTED,
        )


VALUE = Operation(None, None)
ENTRY = Operation(query_pb2.ENTRY, MapEntry, of_entries=True)
EXISTS = Operation(query_pb2.EXISTS, Presence, results=PresenceResults)
ENTRY_EXISTS = Operation(query_pb2.EXISTS, Presence, of_entries=True, results=PresenceResults)
SIZE = Operation(query_pb2.SIZE, Size)
SLICE = Operation(query_pb2.SLICE, ListSlice, of_slices=True)
SCAN = Operation(None, None, names_window=False)
WINDOWS = Operation(query_pb2.WINDOWS, KeyWindows, of_windows=True, results=WindowsResults)
NEWEST_WINDOW = Operation(query_pb2.WINDOWS, newest_window, of_windows=True)
TIMERS = Operation(query_pb2.PREFIX, PendingTimers, of_timers=True, results=TimersResults)
