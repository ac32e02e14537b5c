"""List state of a task whose elements expire, those of one batch together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from queryable_state.internal.v1.backend_pb2 import StateValues
from queryable_state.streaming.runtime.states.expiring.expiry import Expiry, Life
from queryable_state.streaming.runtime.states.list_state import CachedList
from queryable_state.wire.values.value_codec import without_timestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from queryable_state.streaming.descriptors import ListStateDescriptor
    from queryable_state.streaming.runtime.states.cached_state import StateContext
    from queryable_state.v1.registration_pb2 import StateRegistration
    from queryable_state.wire.changes import ChangeBlockBuilder


@dataclass(slots=True)
class _Chunks:
    """The stored chunks of one list."""

    live: list[tuple[bytes, bytes]] = field(default_factory=list)
    """Store element and bytes without timestamp."""
    expired: list[bytes] = field(default_factory=list)
    """Store elements of visible expired chunks."""
    has_removable: bool = False
    """True if a read that finds nothing live clears the list."""


class ExpiringList(CachedList):
    """List state with a TTL.

    A chunk has the elements of one batch and one timestamp. As in Flink, a read removes expired
    elements if it renews the list or if nothing else is left.
    """

    def __init__(self, descriptor: ListStateDescriptor) -> None:
        super().__init__(descriptor)
        self._stored_chunks: dict[int, _Chunks] = {}
        self._renewed: set[int] = set()

    def bind(self, registration: StateRegistration, context: StateContext) -> None:
        self._expiry = Expiry.of_expiring(registration, context.batch_timestamp_ms)
        super().bind(registration, context)

    def take(self, slots: Sequence[int], values: StateValues) -> None:
        plain = StateValues()
        for slot, records in zip(slots, values.records, strict=True):
            chunks, kept = _Chunks(), plain.records.add()
            for element, data in zip(records.elements, records.values, strict=True):
                life = self._expiry.life_of(data)
                if life == Life.GONE:
                    chunks.has_removable |= self._expiry.lifetime.removed_by_reads
                    continue
                value = without_timestamp(data)
                if life == Life.EXPIRED:
                    chunks.expired.append(element)
                    chunks.has_removable = True
                else:
                    chunks.live.append((element, value))
                kept.elements.append(element)
                kept.values.append(value)
            self._stored_chunks[slot] = chunks
        super().take(slots, plain)

    def get(self) -> list[Any]:
        found = super().get()
        slot = self._current_key.slot
        elements, chunks = self._of(slot), self._stored_chunks.get(slot)
        if chunks is None or elements.cleared:
            return found
        if not chunks.live and not elements.appended:
            if chunks.has_removable:
                self.clear()
        elif self._expiry.lifetime.renewed_by_reads and slot not in self._renewed:
            self._renew(slot, chunks)
        return found

    def write(self, changes: ChangeBlockBuilder) -> None:
        super().write(changes)
        renewed = [slot for slot in sorted(self._renewed) if not self._of(slot).cleared]
        for slot in renewed:
            for element in self._stored_chunks[slot].expired:
                changes.delete(self.prefix(slot) + element)
        for slot in renewed:
            for element, chunk in self._stored_chunks[slot].live:
                changes.put(self.prefix(slot) + element, self._expiry.updated(chunk))

    def _renew(self, slot: int, chunks: _Chunks) -> None:
        """Notes that a read has renewed the live chunks, and hides the expired ones."""
        self._renewed.add(slot)
        if chunks.expired:
            plain = StateValues()
            kept = plain.records.add()
            for element, chunk in chunks.live:
                kept.elements.append(element)
                kept.values.append(chunk)
            super().take((slot,), plain)

    def _chunks(
        self, slot: int, appended: list[Any], join: Callable[[list[Any]], bytes]
    ) -> Iterable[bytes]:
        return super()._chunks(slot, appended, lambda some: self._expiry.updated(join(some)))
