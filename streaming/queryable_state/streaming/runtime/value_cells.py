"""States of one value a key: value, reducing and aggregating state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.internal.v1.backend_pb2 import StateFetch
from queryable_state.streaming.functions import UserFunctionError
from queryable_state.streaming.runtime.cached_state import (
    UNSEEN,
    CachedState,
    point_values,
    value_codec,
)
from queryable_state.streaming.state import AggregatingState, ReducingState, ValueState
from queryable_state.v1.query_pb2 import ReadKind
from queryable_state.wire.store_keys import ACCUMULATOR_ELEMENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.internal.v1.backend_pb2 import StateValues
    from queryable_state.streaming.descriptors import (
        AggregatingStateDescriptor,
        ReducingStateDescriptor,
        StateDescriptor,
    )
    from queryable_state.streaming.runtime.cached_state import StateLink
    from queryable_state.v1.registration_pb2 import StateRegistration
    from queryable_state.wire.changes import ChangeBlockBuilder


class CellState(CachedState):
    """One Python object a slot; None where nothing is stored."""

    element = b""

    def __init__(self, descriptor: StateDescriptor) -> None:
        super().__init__(descriptor)
        self.cells: list[Any] = []
        self.dirty: set[int] = set()

    def bind(self, registration: StateRegistration, link: StateLink) -> None:
        super().bind(registration, link)
        self._bind_codec(registration)

    def _bind_codec(self, registration: StateRegistration) -> None:
        declared = self.descriptor.value_type
        assert declared is not None
        self._codec = value_codec(registration.value_types, declared, None)

    def grow(self, slots: int) -> None:
        self.cells.extend([UNSEEN] * (slots - len(self.cells)))

    def is_unseen(self, slot: int) -> bool:
        return self.cells[slot] is UNSEEN

    def take(self, slots: Sequence[int], values: StateValues) -> None:
        decode = self._codec.decode
        cells = self.cells
        for slot, data in point_values(slots, values):
            cells[slot] = None if data is None else decode(data)

    def request(self, slots: Sequence[int]) -> StateFetch:
        return StateFetch(
            state_id=self.state_id,
            read=ReadKind.POINT,
            keys=[self.prefix(slot) + self.element for slot in slots],
        )

    def load_chunk(self) -> list[Any]:
        """All cells, those of the chunk's keys read."""
        self._load_chunk()
        return self.cells

    def write(self, changes: ChangeBlockBuilder) -> None:
        written = sorted(self.dirty)
        cells = self.cells
        for slot in written:
            if cells[slot] is None:
                changes.delete(self.prefix(slot) + self.element)
        kept = [slot for slot in written if cells[slot] is not None]
        changes.put_all(
            [self.prefix(slot) + self.element for slot in kept],
            [self._encoded(self._codec, slot, cells[slot]) for slot in kept],
        )

    def _read(self) -> Any:
        cell = self.cells[self._cursor.slot]
        if cell is UNSEEN:
            cell = self.load_chunk()[self._cursor.slot]
        return cell

    def _write(self, value: Any) -> None:
        slot = self._cursor.slot
        self.cells[slot] = value
        self.dirty.add(slot)

    def clear(self) -> None:
        """Remove what is stored under the current key."""
        self._write(None)


class CachedValue(CellState, ValueState[Any]):
    """Value state."""

    def value(self) -> Any:
        cell = self.cells[self._cursor.slot]
        return self._read() if cell is UNSEEN else cell

    def update(self, value: Any) -> None:
        slot = self._cursor.slot
        self.cells[slot] = value
        self.dirty.add(slot)


class CachedReducing(CellState, ReducingState[Any]):
    """Reducing state."""

    def __init__(self, descriptor: ReducingStateDescriptor) -> None:
        super().__init__(descriptor)
        self._reduce = descriptor.reduce

    def get(self) -> Any:
        return self._read()

    def add(self, value: Any) -> None:
        current = self._read()
        self._write(value if current is None else self._reduce(current, value))


class CachedAggregating(CellState, AggregatingState[Any, Any]):
    """Aggregating state: the cell is the accumulator; a result beside it where queryable."""

    element = ACCUMULATOR_ELEMENT

    def __init__(self, descriptor: AggregatingStateDescriptor) -> None:
        super().__init__(descriptor)
        self._aggregate = descriptor.agg_function

    def _bind_codec(self, registration: StateRegistration) -> None:
        accumulator, result = self.descriptor.accumulator_type, self.descriptor.value_type
        assert accumulator is not None
        self._codec = value_codec(registration.accumulator_types, accumulator, None)
        self._result_codec = (
            value_codec(registration.value_types, result, None)
            if result is not None and self.descriptor.is_queryable
            else None
        )

    def get(self) -> Any:
        accumulator = self._read()
        return None if accumulator is None else self._aggregate.get_result(accumulator)

    def add(self, value: Any) -> None:
        accumulator = self._read()
        if accumulator is None:
            accumulator = self._aggregate.create_accumulator()
        self._write(self._aggregate.add(value, accumulator))

    def write(self, changes: ChangeBlockBuilder) -> None:
        if self._result_codec is not None:
            results = {slot: self._result(slot) for slot in sorted(self.dirty)}
            for slot, result in results.items():
                if result is None:
                    changes.delete(self.prefix(slot))
            kept = [slot for slot, result in results.items() if result is not None]
            changes.put_all(
                [self.prefix(slot) for slot in kept],
                [self._encoded(self._result_codec, slot, results[slot]) for slot in kept],
            )
        super().write(changes)

    def _result(self, slot: int) -> Any:
        accumulator = self.cells[slot]
        if accumulator is None:
            return None
        try:
            return self._aggregate.get_result(accumulator)
        except Exception as error:
            raise UserFunctionError(
                f"{self._described(slot)}: get_result failed: {type(error).__name__}: {error}"
            ) from error
