"""Map state of a task whose entries expire, each on its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming.runtime.states.expiring.expiry import Expiry, Life
from queryable_state.streaming.runtime.states.map_state import CachedMap
from queryable_state.v1.query_pb2 import Records
from queryable_state.wire.values.value_codec import without_timestamp

if TYPE_CHECKING:
    from queryable_state.streaming.descriptors import MapStateDescriptor
    from queryable_state.streaming.runtime.states.cached_state import StateContext
    from queryable_state.v1.registration_pb2 import StateRegistration


class ExpiringMap(CachedMap):
    """Map state with a TTL.

    `get`, `contains` and iteration read entries, which may renew or remove them; `is_empty` and
    `len` read none. Every written entry gets the timestamp of the batch.
    """

    def __init__(self, descriptor: MapStateDescriptor) -> None:
        super().__init__(descriptor)
        self._lapsed: dict[int, set[bytes]] = {}
        """By slot, the entries that a read removes: expired ones and, without background
        clean-up, gone ones."""

    def bind(self, registration: StateRegistration, context: StateContext) -> None:
        self._expiry = Expiry.of_expiring(registration, context.batch_timestamp_ms)
        super().bind(registration, context)
        self._updated = self._expiry.updater(self._codec.header)

    def _merge(self, slot: int, records: Records, *, complete: bool) -> None:
        plain = Records()
        for element, data in zip(records.elements, records.values, strict=True):
            value = self._visible(slot, element, data)
            if value is not None:
                plain.elements.append(element)
                plain.values.append(value)
        super()._merge(slot, plain, complete=complete)

    def _fetched(self, slot: int, encoded: bytes) -> bytes | None:
        data = super()._fetched(slot, encoded)
        return None if data is None else self._visible(slot, encoded, data)

    def clear(self) -> None:
        self._lapsed.pop(self._current_key.slot, None)
        super().clear()

    def _find(self, key: Any) -> tuple[Any, Any] | None:
        found = super()._find(key)
        slot = self._current_key.slot
        self._after_read(slot, self._encoded_key(slot, key))
        return found

    def _in_order(self) -> list[tuple[Any, Any]]:
        found = super()._in_order()
        slot = self._current_key.slot
        for encoded in sorted(self._lapsed.get(slot, set()).union(self._of(slot).entries)):
            self._after_read(slot, encoded)
        return found

    def _visible(self, slot: int, element: bytes, data: bytes) -> bytes | None:
        """The bytes of a fetched entry without its timestamp; None if the entry is gone."""
        life = self._expiry.life_of(data)
        if life == Life.EXPIRED or (life == Life.GONE and self._expiry.lifetime.removed_by_reads):
            self._lapsed.setdefault(slot, set()).add(element)
        return None if life == Life.GONE else without_timestamp(data)

    def _after_read(self, slot: int, encoded: bytes) -> None:
        """Marks an entry as changed if a read renews or removes it."""
        cached = self._of(slot)
        if encoded in cached.changed:
            return
        if encoded in self._lapsed.get(slot, ()):
            cached.entries.pop(encoded, None)
            cached.absent.add(encoded)
        elif not self._expiry.lifetime.renewed_by_reads or encoded not in cached.entries:
            return
        cached.changed[encoded] = None
        self._dirty.add(slot)

    def _data(self, slot: int, held: Any) -> bytes:
        return self._updated(super()._data(slot, held))
