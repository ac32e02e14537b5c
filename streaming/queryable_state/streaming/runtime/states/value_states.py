"""Cached states with one value per key: value, reducing and aggregating state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.internal.v1.backend_pb2 import StateFetch
from queryable_state.streaming.functions import UserFunctionError
from queryable_state.streaming.runtime.states.cached_state import (
    UNSEEN,
    CacheCodec,
    CachedState,
    point_values,
    value_codec,
)
from queryable_state.streaming.runtime.user_code import described
from queryable_state.streaming.state import AggregatingState, ReducingState, ValueState
from queryable_state.v1.query_pb2 import ReadKind
from queryable_state.wire.errors import SerializationError
from queryable_state.wire.keys.store_keys import ACCUMULATOR_ELEMENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.internal.v1.backend_pb2 import StateValues
    from queryable_state.streaming.descriptors import StateDescriptor, ValueStateDescriptor
    from queryable_state.streaming.functions import (
        AggregatingStateDescriptor,
        ReducingStateDescriptor,
    )
    from queryable_state.streaming.runtime.states.cached_state import StateContext
    from queryable_state.v1.registration_pb2 import StateRegistration
    from queryable_state.wire.changes import ChangeBlockBuilder
    from queryable_state.wire.schema.type_model import TypeInfo
    from queryable_state.wire.values.value_codec import ValueCodec


class SingleValueState(CachedState):
    """One cached value per slot; None if the key has no value."""

    element = b""

    def __init__(self, descriptor: StateDescriptor) -> None:
        super().__init__(descriptor)
        self.cached_values: list[Any] = []
        self.dirty: set[int] = set()

    def bind(self, registration: StateRegistration, context: StateContext) -> None:
        super().bind(registration, context)
        self._bind_codec(registration)

    def _bind_codec(self, registration: StateRegistration) -> None:
        declared = self.descriptor.value_type
        assert declared is not None
        self._hold_as(value_codec(registration.value_types, declared, None))

    def _hold_as(self, codec: ValueCodec) -> None:
        self._type = codec.type_info
        self._header = codec.header
        self._values = CacheCodec.of(codec)
        self._hold = self._values.hold
        self.give = self._values.give
        """Converts a cached value, which must not be None, for a function."""

    def grow(self, slots: int) -> None:
        self.cached_values.extend([UNSEEN] * (slots - len(self.cached_values)))

    def is_unseen(self, slot: int) -> bool:
        return self.cached_values[slot] is UNSEEN

    def take(self, slots: Sequence[int], values: StateValues) -> None:
        take = self._values.take
        cached_values = self.cached_values
        for slot, data in point_values(slots, values):
            cached_values[slot] = None if data is None else take(data)

    def request(self, slots: Sequence[int]) -> StateFetch:
        return StateFetch(
            state_id=self.state_id,
            read=ReadKind.POINT,
            keys=[self.prefix(slot) + self.element for slot in slots],
        )

    def load_chunk(self) -> list[Any]:
        """Fetches the unseen keys of the chunk; returns the cached values by slot."""
        self._load_chunk()
        return self.cached_values

    def held(self, slot: int, value: Any) -> Any:
        """Converts a value for the cache; SerializationError if it is None or of another type."""
        try:
            return self._hold(value)
        except SerializationError as problem:
            raise self._refused(slot, self._type, problem) from problem

    def write(self, changes: ChangeBlockBuilder) -> None:
        written = sorted(self.dirty)
        cached_values = self.cached_values
        for slot in written:
            if cached_values[slot] is None:
                changes.delete(self.prefix(slot) + self.element)
        kept = [slot for slot in written if cached_values[slot] is not None]
        changes.put_all(
            [self.prefix(slot) + self.element for slot in kept],
            [
                self._sized(slot, self._values.data(cached_values[slot]), self._type)
                for slot in kept
            ],
        )

    def _sized(self, slot: int, data: bytes, info: TypeInfo) -> bytes:
        self._check_size(slot, len(data), info)
        return data

    def _read(self) -> Any:
        """The cached value of the current key, fetched if unseen."""
        cached = self.cached_values[self._current_key.slot]
        if cached is UNSEEN:
            cached = self.load_chunk()[self._current_key.slot]
        return cached

    def _write(self, value: Any) -> None:
        slot = self._current_key.slot
        try:
            self.cached_values[slot] = self._hold(value)
        except SerializationError as problem:
            raise self._refused(slot, self._type, problem) from problem
        self.dirty.add(slot)

    def is_present(self) -> bool:
        """True if the current key has a value; does not renew or remove one with a TTL."""
        return self._read() is not None

    def clear(self) -> None:
        """Removes the value of the current key."""
        slot = self._current_key.slot
        self.cached_values[slot] = None
        self.dirty.add(slot)


class CachedValue(SingleValueState, ValueState[Any]):
    """Value state of a task."""

    def __init__(self, descriptor: ValueStateDescriptor) -> None:
        super().__init__(descriptor)
        self._default_value = descriptor.get_default_value

    def value(self) -> Any:
        cached = self.cached_values[self._current_key.slot]
        if cached is UNSEEN:
            cached = self._read()
        return self._default_value() if cached is None else self.give(cached)

    def update(self, value: Any) -> None:
        slot = self._current_key.slot
        try:
            self.cached_values[slot] = None if value is None else self._hold(value)
        except SerializationError as problem:
            raise self._refused(slot, self._type, problem) from problem
        self.dirty.add(slot)


class CachedReducing(SingleValueState, ReducingState[Any]):
    """Reducing state of a task."""

    def __init__(self, descriptor: ReducingStateDescriptor) -> None:
        super().__init__(descriptor)
        self._reduce = descriptor.reduce

    def get(self) -> Any:
        cached = self._read()
        return None if cached is None else self.give(cached)

    def add(self, value: Any) -> None:
        self._write(self.reduced(self._read(), value))

    def reduced(self, cached: Any, value: Any) -> Any:
        """Applies the reduce function to a cached value of the current key and a new value."""
        if value is None:
            raise self._null_refused("add")
        if cached is None:
            return value
        result = self._reduce(self.give(cached), value)
        if result is None:
            raise UserFunctionError(
                f"{self._described(self._current_key.slot)}: the reduce function returned None: "
                "return the combination of its two arguments"
            )
        return result


class CachedAggregating(SingleValueState, AggregatingState[Any, Any]):
    """Aggregating state of a task. It caches the accumulator; if it is queryable, `write` stores
    the result beside the accumulator."""

    element = ACCUMULATOR_ELEMENT

    def __init__(self, descriptor: AggregatingStateDescriptor) -> None:
        super().__init__(descriptor)
        self._aggregate = descriptor.agg_function

    def _bind_codec(self, registration: StateRegistration) -> None:
        accumulator, result = self.descriptor.accumulator_type, self.descriptor.value_type
        assert accumulator is not None
        self._hold_as(value_codec(registration.accumulator_types, accumulator, None))
        self._results: CacheCodec | None = None
        if result is not None:
            self._results = CacheCodec.of(value_codec(registration.value_types, result, None))

    def get(self) -> Any:
        cached = self._read()
        if cached is None:
            return None
        result = self._aggregate.get_result(self.give(cached))
        if result is None or self._results is None:
            return result
        return self._results.give(self._held_result(self._current_key.slot, result, self._results))

    def add(self, value: Any) -> None:
        if value is None:
            raise self._null_refused("add")
        cached = self._read()
        if cached is None:
            created = self._aggregate.create_accumulator()
            if created is None:
                raise self._no_accumulator("create_accumulator")
            # In the form of a stored accumulator: all values are added to the same form.
            cached = self.held(self._current_key.slot, created)
        accumulator = self._aggregate.add(value, self.give(cached))
        if accumulator is None:
            raise self._no_accumulator("add")
        self._write(accumulator)

    def accumulator(self) -> Any:
        """The accumulator of the current key, as a copy; None if there is none."""
        cached = self._read()
        return None if cached is None else self.give(cached)

    def add_accumulator(self, accumulator: Any) -> None:
        """Merges an accumulator into that of the current key."""
        known = self.accumulator()
        merged = accumulator if known is None else self._aggregate.merge(known, accumulator)
        if merged is None:
            raise self._no_accumulator("merge")
        self._write(merged)

    def write(self, changes: ChangeBlockBuilder) -> None:
        if self._results is not None and self.descriptor.is_queryable():
            results = {slot: self._result(slot, self._results) for slot in sorted(self.dirty)}
            for slot, result in results.items():
                if result is None:
                    changes.delete(self.prefix(slot))
            kept = {slot: data for slot, data in results.items() if data is not None}
            changes.put_all([self.prefix(slot) for slot in kept], list(kept.values()))
        super().write(changes)

    def _no_accumulator(self, method: str) -> UserFunctionError:
        return UserFunctionError(
            f"{self._described(self._current_key.slot)}: {method} of the aggregate function "
            "returned None: return the accumulator, also if it was changed in place"
        )

    def _result(self, slot: int, values: CacheCodec) -> bytes | None:
        """The bytes of the result to store; None if there is no result."""
        cached = self.cached_values[slot]
        if cached is None:
            return None
        try:
            result = self._aggregate.get_result(self.give(cached))
        except Exception as error:
            raise UserFunctionError(
                f"{self._described(slot)}: get_result failed: {described(error)}"
            ) from error
        if result is None:
            return None
        info = self.descriptor.value_type
        assert info is not None
        return self._sized(slot, values.data(self._held_result(slot, result, values)), info)

    def _held_result(self, slot: int, result: Any, values: CacheCodec) -> Any:
        info = self.descriptor.value_type
        assert info is not None
        try:
            return values.hold(result)
        except SerializationError as problem:
            raise self._refused(slot, info, problem) from problem
