"""Value, reducing and aggregating states of a task whose values expire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming.runtime.states.cached_state import UNSEEN, point_values
from queryable_state.streaming.runtime.states.expiring.expiry import Expiry, Life
from queryable_state.streaming.runtime.states.value_states import (
    CachedAggregating,
    CachedReducing,
    CachedValue,
    SingleValueState,
)
from queryable_state.wire.values.value_codec import without_timestamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.internal.v1.backend_pb2 import StateValues
    from queryable_state.streaming.descriptors import StateDescriptor
    from queryable_state.streaming.runtime.states.cached_state import StateContext
    from queryable_state.v1.registration_pb2 import StateRegistration
    from queryable_state.wire.schema.type_model import TypeInfo


class ExpiringSingleValue(SingleValueState):
    """A single-value state with a TTL.

    Every written value gets the timestamp of the batch. `_after_read` is called with the slot of a
    value that a function has read. It marks the slot as dirty if the read renews or removes it.
    """

    def __init__(self, descriptor: StateDescriptor) -> None:
        super().__init__(descriptor)
        self._lapsed: set[int] = set()
        """Slots whose stored value a read removes: expired values and, without background
        clean-up, gone ones."""

    def bind(self, registration: StateRegistration, context: StateContext) -> None:
        self._expiry = Expiry.of_expiring(registration, context.batch_timestamp_ms)
        super().bind(registration, context)
        self._updated = self._expiry.updater(self._header)

    def take(self, slots: Sequence[int], values: StateValues) -> None:
        take, life_of = self._values.take, self._expiry.life_of
        removes_gone = self._expiry.lifetime.removed_by_reads
        cached_values = self.cached_values
        for slot, data in point_values(slots, values):
            life = Life.LIVE if data is None else life_of(data)
            if life == Life.EXPIRED or (life == Life.GONE and removes_gone):
                self._lapsed.add(slot)
            if data is None or life == Life.GONE:
                cached_values[slot] = None
            else:
                cached_values[slot] = take(without_timestamp(data))

    def _after_read(self, slot: int) -> None:
        if slot in self.dirty:
            return
        if slot in self._lapsed:
            self.cached_values[slot] = None
            self.dirty.add(slot)
        elif self._expiry.lifetime.renewed_by_reads and self.cached_values[slot] is not None:
            self.dirty.add(slot)

    def _sized(self, slot: int, data: bytes, info: TypeInfo) -> bytes:
        return super()._sized(slot, self._updated(data), info)


class ExpiringValue(ExpiringSingleValue, CachedValue):
    """Value state with a TTL."""

    def value(self) -> Any:
        slot = self._current_key.slot
        cached = self.cached_values[slot]
        if cached is UNSEEN:
            cached = self._read()
        self._after_read(slot)
        return self._default_value() if cached is None else self.give(cached)


class ExpiringReducing(ExpiringSingleValue, CachedReducing):
    """Reducing state with a TTL; `add` combines with an expired value that is visible."""

    def get(self) -> Any:
        result = super().get()
        self._after_read(self._current_key.slot)
        return result


class ExpiringAggregating(ExpiringSingleValue, CachedAggregating):
    """Aggregating state with a TTL; `add` goes on with an expired accumulator that is visible."""

    def get(self) -> Any:
        result = super().get()
        self._after_read(self._current_key.slot)
        return result
