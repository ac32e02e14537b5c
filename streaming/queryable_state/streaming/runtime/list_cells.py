"""List state: what was there before the batch, and what the batch appends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming.runtime.cached_state import CachedState, value_codec
from queryable_state.streaming.state import ListState
from queryable_state.v1.query_pb2 import ReadKind
from queryable_state.wire.store_keys import list_element
from queryable_state.wire.types import Types

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from queryable_state.internal.v1.backend_pb2 import StateValues
    from queryable_state.streaming.descriptors import ListStateDescriptor
    from queryable_state.streaming.runtime.cached_state import StateLink
    from queryable_state.v1.registration_pb2 import StateRegistration
    from queryable_state.wire.changes import ChangeBlockBuilder


class _Elements:
    """The list of one key."""

    __slots__ = ("appended", "cleared", "stored")

    def __init__(self) -> None:
        self.stored: list[Any] | None = None
        """Elements of earlier batches; None: not read."""
        self.appended: list[Any] = []
        self.cleared = False


class CachedList(CachedState, ListState[Any]):
    """List state. A batch's appends become chunks of their own, so appending reads nothing."""

    read_kind = ReadKind.PREFIX

    def __init__(self, descriptor: ListStateDescriptor) -> None:
        super().__init__(descriptor)
        self._lists: list[_Elements | None] = []
        self._dirty: set[int] = set()

    def bind(self, registration: StateRegistration, link: StateLink) -> None:
        super().bind(registration, link)
        element = self.descriptor.value_type
        assert element is not None
        self._codec = value_codec(registration.value_types, element, Types.LIST)

    def grow(self, slots: int) -> None:
        self._lists.extend([None] * (slots - len(self._lists)))

    def is_unseen(self, slot: int) -> bool:
        elements = self._lists[slot]
        return elements is None or elements.stored is None

    def take(self, slots: Sequence[int], values: StateValues) -> None:
        decode = self._codec.decode
        for slot, records in zip(slots, values.records, strict=True):
            self._of(slot).stored = [item for chunk in records.values for item in decode(chunk)]

    def get(self) -> list[Any]:
        slot = self._cursor.slot
        elements = self._of(slot)
        if elements.stored is None:
            self._load_chunk()
        return [*(elements.stored or ()), *elements.appended]

    def add(self, value: Any) -> None:
        self.add_all((value,))

    def add_all(self, values: Iterable[Any]) -> None:
        slot = self._cursor.slot
        self._of(slot).appended.extend(values)
        self._dirty.add(slot)

    def update(self, values: Iterable[Any]) -> None:
        slot = self._cursor.slot
        elements = self._of(slot)
        elements.appended = list(values)
        elements.stored = []
        elements.cleared = True
        self._dirty.add(slot)

    def clear(self) -> None:
        self.update(())

    def write(self, changes: ChangeBlockBuilder) -> None:
        written = sorted(self._dirty)
        for slot in written:
            if self._of(slot).cleared:
                changes.clear_prefix(self.prefix(slot))
        for slot in written:
            prefix = self.prefix(slot)
            for sequence, chunk in enumerate(self._chunks(slot, self._of(slot).appended)):
                changes.put(prefix + list_element(self._link.batch_id, sequence), chunk)

    def _chunks(self, slot: int, appended: list[Any]) -> Iterable[bytes]:
        """The appends in as few chunks as the limit on values allows."""
        if not appended:
            return []
        if len(appended) == 1:
            return [self._encoded(self._codec, slot, appended)]
        chunk = self._encoded_of_any_size(self._codec, slot, appended)
        if len(chunk) <= self._link.settings.value_bytes:
            return [chunk]
        half = len(appended) // 2
        return [*self._chunks(slot, appended[:half]), *self._chunks(slot, appended[half:])]

    def _of(self, slot: int) -> _Elements:
        elements = self._lists[slot]
        if elements is None:
            elements = self._lists[slot] = _Elements()
        return elements
