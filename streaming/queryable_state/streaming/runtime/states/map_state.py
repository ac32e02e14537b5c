"""Map state of a task: entries by encoded key; small maps are fetched whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.internal.v1.backend_pb2 import StateFetch
from queryable_state.streaming.runtime.states.cached_state import (
    CacheCodec,
    CachedState,
    point_values,
    value_codec,
)
from queryable_state.streaming.state import MapState
from queryable_state.v1.query_pb2 import ReadKind
from queryable_state.wire.errors import KeyTypeError, SerializationError
from queryable_state.wire.keys.key_codec import KeyCodec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from queryable_state.internal.v1.backend_pb2 import StateValues
    from queryable_state.streaming.descriptors import MapStateDescriptor
    from queryable_state.streaming.runtime.states.cached_state import StateContext
    from queryable_state.v1.query_pb2 import Records
    from queryable_state.v1.registration_pb2 import StateRegistration
    from queryable_state.wire.changes import ChangeBlockBuilder


class _Entries:
    """The map of one key."""

    __slots__ = ("absent", "changed", "cleared", "complete", "entries", "loaded")

    def __init__(self) -> None:
        self.entries: dict[bytes, tuple[Any, Any]] = {}
        """Known entries: encoded map key to map key and cached value (None: null)."""
        self.absent: set[bytes] = set()
        """Encoded keys known not to exist, while the map is not complete."""
        self.changed: dict[bytes, None] = {}
        """Encoded keys of written and removed entries, in order."""
        self.loaded = False
        """True if the map was fetched, up to the prefetch limit."""
        self.complete = False
        """True if `entries` contains all entries of the map."""
        self.cleared = False


class CachedMap(CachedState, MapState[Any, Any]):
    """Map state. A map above the prefetch limit is read entry by entry, and whole for iteration."""

    read_kind = ReadKind.PREFIX

    def __init__(self, descriptor: MapStateDescriptor) -> None:
        super().__init__(descriptor)
        self._keys = KeyCodec(descriptor.map_key_type)
        self._maps: list[_Entries | None] = []
        self._dirty: set[int] = set()

    def bind(self, registration: StateRegistration, context: StateContext) -> None:
        super().bind(registration, context)
        declared = self.descriptor.value_type
        assert declared is not None
        self._codec = value_codec(registration.value_types, declared, None)
        self._values = CacheCodec.of(self._codec)
        self._null = self._codec.null

    def grow(self, slots: int) -> None:
        self._maps.extend([None] * (slots - len(self._maps)))

    def is_unseen(self, slot: int) -> bool:
        entries = self._maps[slot]
        return entries is None or not entries.loaded

    def request(self, slots: Sequence[int]) -> StateFetch:
        fetch = super().request(slots)
        fetch.limit = self._context.settings.map_prefetch_entries
        return fetch

    def take(self, slots: Sequence[int], values: StateValues) -> None:
        truncated = set(values.truncated)
        for position, (slot, records) in enumerate(zip(slots, values.records, strict=True)):
            self._merge(slot, records, complete=position not in truncated)

    def _merge(self, slot: int, records: Records, *, complete: bool) -> None:
        cached = self._of(slot)
        read_key, read_value = self._keys.decode_all, self._taken
        for element, value in zip(records.elements, records.values, strict=True):
            if element not in cached.changed:
                cached.entries[element] = (read_key(element), read_value(value))
        cached.loaded = True
        cached.complete = complete

    def get(self, key: Any) -> Any:
        found = self._find(key)
        return None if found is None else self._given(found[1])

    def contains(self, key: Any) -> bool:
        return self._find(key) is not None

    def put(self, key: Any, value: Any) -> None:
        slot = self._current_key.slot
        self._put(slot, self._encoded_key(slot, key), self._held(slot, value))

    def _put(self, slot: int, encoded: bytes, held: Any) -> None:
        cached = self._of(slot)
        cached.entries[encoded] = (self._keys.decode_all(encoded), held)
        cached.absent.discard(encoded)
        cached.changed[encoded] = None
        self._dirty.add(slot)

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        slot = self._current_key.slot
        # Any object with items(), such as another MapState.
        if not hasattr(dict_value, "items"):
            raise self._argument_refused("put_all", "a mapping of map keys to values", dict_value)
        # Validate all entries before the first write: an invalid entry changes nothing.
        held = [
            (self._encoded_key(slot, key), self._held(slot, value))
            for key, value in dict_value.items()
        ]
        for encoded, value in held:
            self._put(slot, encoded, value)

    def remove(self, key: Any) -> None:
        slot = self._current_key.slot
        encoded = self._encoded_key(slot, key)
        cached = self._of(slot)
        cached.entries.pop(encoded, None)
        cached.absent.add(encoded)
        cached.changed[encoded] = None
        self._dirty.add(slot)

    def items(self) -> list[tuple[Any, Any]]:
        given = self._given
        return [(key, given(held)) for key, held in self._in_order()]

    def keys(self) -> list[Any]:
        return [key for key, _ in self._in_order()]

    def values(self) -> list[Any]:
        return [value for _, value in self.items()]

    def is_empty(self) -> bool:
        cached = self._of(self._current_key.slot)
        # A known entry answers without a fetch.
        return not cached.entries and not self._loaded().entries and not self._whole().entries

    def __len__(self) -> int:
        return len(self._whole().entries)

    def clear(self) -> None:
        slot = self._current_key.slot
        cached = self._maps[slot] = _Entries()
        cached.loaded = cached.complete = cached.cleared = True
        self._dirty.add(slot)

    def write(self, changes: ChangeBlockBuilder) -> None:
        written = [(slot, self.prefix(slot), self._of(slot)) for slot in sorted(self._dirty)]
        for _, prefix, cached in written:
            if cached.cleared:
                changes.clear_prefix(prefix)
        for _, prefix, cached in written:
            if not cached.cleared:
                for element in cached.changed:
                    if element not in cached.entries:
                        changes.delete(prefix + element)
        for slot, prefix, cached in written:
            put = [element for element in cached.changed if element in cached.entries]
            changes.put_all(
                [prefix + element for element in put],
                [self._data(slot, cached.entries[element][1]) for element in put],
            )

    def _find(self, key: Any) -> tuple[Any, Any] | None:
        slot = self._current_key.slot
        encoded = self._encoded_key(slot, key)
        cached = self._maps[slot]
        if cached is not None and (encoded in cached.entries or encoded in cached.absent):
            return cached.entries.get(encoded)
        cached = self._loaded()
        found = cached.entries.get(encoded)
        if found is not None or cached.complete:
            return found
        value = self._fetched(slot, encoded)
        if value is None:
            cached.absent.add(encoded)
        else:
            cached.entries[encoded] = (self._keys.decode_all(encoded), self._taken(value))
        return cached.entries.get(encoded)

    def _fetched(self, slot: int, encoded: bytes) -> bytes | None:
        """Fetches one entry; None if there is none."""
        answer = self._context.fetch(
            StateFetch(
                state_id=self.state_id, read=ReadKind.POINT, keys=[self.prefix(slot) + encoded]
            )
        )
        [(_, value)] = point_values((slot,), answer)
        return value

    def _in_order(self) -> list[tuple[Any, Any]]:
        """All entries in the order of their encoded keys."""
        entries = self._whole().entries
        return [entries[encoded] for encoded in sorted(entries)]

    def _taken(self, data: bytes) -> Any:
        return None if data == self._null else self._values.take(data)

    def _given(self, held: Any) -> Any:
        return None if held is None else self._values.give(held)

    def _held(self, slot: int, value: Any) -> Any:
        if value is None:
            return None
        try:
            return self._values.hold(value)
        except SerializationError as problem:
            raise self._refused(slot, self._codec.type_info, problem) from problem

    def _data(self, slot: int, held: Any) -> bytes:
        if held is None:
            return self._null
        data = self._values.data(held)
        self._check_size(slot, len(data), self._codec.type_info)
        return data

    def _loaded(self) -> _Entries:
        slot = self._current_key.slot
        cached = self._of(slot)
        if not cached.loaded:
            self._load_chunk()
        return cached

    def _whole(self) -> _Entries:
        cached = self._loaded()
        if not cached.complete:
            slot = self._current_key.slot
            answer = self._context.fetch(super().request((slot,)))
            self._merge(slot, answer.records[0], complete=True)
        return cached

    def _encoded_key(self, slot: int, key: Any) -> bytes:
        try:
            return self._keys.encode(key)
        except KeyTypeError as problem:
            raise KeyTypeError(
                f"{self._described(slot)}: the map key {key!r} is not of type "
                f"{self._keys.type_info}: "
                f"{problem}"
            ) from problem

    def _of(self, slot: int) -> _Entries:
        cached = self._maps[slot]
        if cached is None:
            cached = self._maps[slot] = _Entries()
        return cached
