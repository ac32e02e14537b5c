"""List state of a task: the elements stored before the batch, and the batch's appends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from queryable_state.streaming.runtime.pickling import pickled
from queryable_state.streaming.runtime.states.cached_state import CachedState, value_codec
from queryable_state.streaming.state import ListState
from queryable_state.v1.query_pb2 import ReadKind
from queryable_state.wire.errors import SerializationError
from queryable_state.wire.keys.store_keys import list_element
from queryable_state.wire.schema.types import Types
from queryable_state.wire.state_codecs import decode_list
from queryable_state.wire.values.list_elements import ElementCodec, element_count
from queryable_state.wire.values.normal_form import is_mutable, normaliser

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from queryable_state.internal.v1.backend_pb2 import StateValues
    from queryable_state.streaming.descriptors import ListStateDescriptor
    from queryable_state.streaming.runtime.states.cached_state import StateContext
    from queryable_state.v1.registration_pb2 import StateRegistration
    from queryable_state.wire.changes import ChangeBlockBuilder


class _Elements:
    """The list of one key."""

    __slots__ = ("appended", "cleared", "stored")

    def __init__(self) -> None:
        self.stored: Sequence[Any] | None = None
        """Elements of earlier batches: cached elements or chunks; None: not fetched."""
        self.appended: list[Any] = []
        """Cached elements that this batch appended."""
        self.cleared = False


class CachedList(CachedState, ListState[Any]):
    """List state. A batch stores its appends as new chunks, so an append does not read.

    Mutable elements, and their stored chunks, are cached as bytes.
    """

    read_kind = ReadKind.PREFIX

    def __init__(self, descriptor: ListStateDescriptor) -> None:
        super().__init__(descriptor)
        self._lists: list[_Elements | None] = []
        self._dirty: set[int] = set()

    def bind(self, registration: StateRegistration, context: StateContext) -> None:
        super().bind(registration, context)
        element = self.descriptor.value_type
        assert element is not None
        self._codec = value_codec(registration.value_types, element, Types.LIST)
        self._elements = ElementCodec(self._codec, pickler=pickled, unpickle=True)
        self._in_bytes = is_mutable(element)
        self._hold = (
            self._elements.encode
            if self._in_bytes
            else normaliser(element, lambda value: self._codec.read_back([value])[0])
        )

    def grow(self, slots: int) -> None:
        self._lists.extend([None] * (slots - len(self._lists)))

    def is_unseen(self, slot: int) -> bool:
        elements = self._lists[slot]
        return elements is None or elements.stored is None

    def take(self, slots: Sequence[int], values: StateValues) -> None:
        for slot, records in zip(slots, values.records, strict=True):
            chunks = records.values
            self._of(slot).stored = (
                list(chunks) if self._in_bytes else decode_list(chunks, self._codec)
            )

    def get(self) -> list[Any]:
        elements = self._loaded()
        stored = elements.stored or ()
        if not self._in_bytes:
            return [*stored, *elements.appended]
        return [*decode_list(stored, self._codec), *map(self._elements.decode, elements.appended)]

    def is_empty(self) -> bool:
        # An append of this batch answers without a fetch.
        return not self._of(self._current_key.slot).appended and not self._loaded().stored

    def __len__(self) -> int:
        elements = self._loaded()
        stored = elements.stored or ()
        count = sum(map(element_count, stored)) if self._in_bytes else len(stored)
        return count + len(elements.appended)

    def add(self, value: Any) -> None:
        if value is None:
            raise self._null_refused("add")
        slot = self._current_key.slot
        held = self._held(slot, value)
        self._of(slot).appended.append(held)
        self._dirty.add(slot)

    def add_all(self, values: Iterable[Any]) -> None:
        slot = self._current_key.slot
        held = self._all_held(slot, values, "add_all")
        self._of(slot).appended.extend(held)
        self._dirty.add(slot)

    def update(self, values: Iterable[Any]) -> None:
        slot = self._current_key.slot
        held = self._all_held(slot, values, "update")
        elements = self._of(slot)
        elements.appended = held
        elements.stored = ()
        elements.cleared = True
        self._dirty.add(slot)

    def clear(self) -> None:
        self.update(())

    def write(self, changes: ChangeBlockBuilder) -> None:
        written = sorted(self._dirty)
        for slot in written:
            if self._of(slot).cleared:
                changes.clear_prefix(self.prefix(slot))
        join = self._elements.join if self._in_bytes else self._codec.encode
        for slot in written:
            prefix = self.prefix(slot)
            for sequence, chunk in enumerate(self._chunks(slot, self._of(slot).appended, join)):
                changes.put(prefix + list_element(self._context.batch_id, sequence), chunk)

    def _chunks(
        self, slot: int, appended: list[Any], join: Callable[[list[Any]], bytes]
    ) -> Iterable[bytes]:
        """The appends in chunks of at most `value_bytes`, halved until they fit."""
        if not appended:
            return []
        chunk = join(appended)
        if len(chunk) <= self._context.settings.value_bytes:
            return [chunk]
        if len(appended) == 1:
            self._check_size(slot, len(chunk), self._codec.type_info)
        half = len(appended) // 2
        return [
            *self._chunks(slot, appended[:half], join),
            *self._chunks(slot, appended[half:], join),
        ]

    def _all_held(self, slot: int, values: Iterable[Any], method: str) -> list[Any]:
        """Converts all values for the cache; an invalid one raises before any is written."""
        held = []
        if not isinstance(values, Iterable):
            raise self._argument_refused(method, "an iterable of elements", values)
        for value in values:
            if value is None:
                raise self._null_refused(method)
            held.append(self._held(slot, value))
        return held

    def _held(self, slot: int, value: Any) -> Any:
        try:
            return self._hold(value)
        except SerializationError as problem:
            info = self.descriptor.value_type
            assert info is not None
            raise self._refused(slot, info, problem) from problem

    def _loaded(self) -> _Elements:
        elements = self._of(self._current_key.slot)
        if elements.stored is None:
            self._load_chunk()
        return elements

    def _of(self, slot: int) -> _Elements:
        elements = self._lists[slot]
        if elements is None:
            elements = self._lists[slot] = _Elements()
        return elements
