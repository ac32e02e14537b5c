"""A state as a task holds it: what it has read, what it has written, by slot of its key."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from queryable_state.internal.v1.backend_pb2 import StateFetch
from queryable_state.streaming.runtime.states.cursor import CurrentKey, NoCurrentKeyError
from queryable_state.streaming.runtime.states.key_table import shown_key
from queryable_state.v1.query_pb2 import ReadKind
from queryable_state.v1.registration_pb2 import StateKind
from queryable_state.wire.errors import InternalError, LimitExceededError, SerializationError
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE
from queryable_state.wire.schema.types import TypeInfo
from queryable_state.wire.values.value_codec import ValueCodec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from queryable_state.internal.v1.backend_pb2 import StateValues
    from queryable_state.streaming.descriptors import StateDescriptor
    from queryable_state.streaming.runtime.states.key_table import KeyTable
    from queryable_state.streaming.runtime.states.settings import RuntimeSettings
    from queryable_state.v1.registration_pb2 import SchemaVersion, StateRegistration
    from queryable_state.wire.changes import ChangeBlockBuilder


class Unseen:
    """Marks a slot that was neither read nor written."""


UNSEEN: Final = Unseen()


@dataclass(frozen=True, kw_only=True)
class StateLink:
    """What ties the states of a task to its keys and its owner."""

    current_key: CurrentKey
    keys: KeyTable
    key_type: TypeInfo
    settings: RuntimeSettings
    batch_id: int
    where: str
    """Operator, subtask and batch, for the texts of errors."""
    load: Callable[[CachedState], None]
    """Fetches the state for the unseen keys of the chunk."""
    fetch: Callable[[StateFetch], StateValues]
    """One fetch by itself."""


class CachedState(ABC):
    """One state of one task. What is written here wins over what is fetched later.

    Call order: `bind` after begin; `grow` at each chunk; `enter` before and
    `leave` after the elements; `write` once at the end.
    """

    read_kind: ClassVar[ReadKind.ValueType] = ReadKind.POINT

    def __init__(self, descriptor: StateDescriptor) -> None:
        self.descriptor = descriptor
        self.was_read = False
        """Whether a chunk read the state, so that later chunks fetch it ahead."""
        self.state_id = 0
        self._current_key: CurrentKey = NoCurrentKeyError(descriptor.name)
        self._link: StateLink

    def bind(self, registration: StateRegistration, link: StateLink) -> None:
        """Take the state id and the types registered."""
        self.state_id = registration.state_id
        self._link = link

    def enter(self) -> None:
        """Elements follow: the cursor says whose."""
        self._current_key = self._link.current_key

    def leave(self) -> None:
        """No element is being processed any more."""
        self._current_key = NoCurrentKeyError(self.descriptor.name)

    @abstractmethod
    def grow(self, slots: int) -> None:
        """Make room for slots up to this number."""

    @abstractmethod
    def is_unseen(self, slot: int) -> bool:
        """Whether reading the slot needs a fetch."""

    @abstractmethod
    def take(self, slots: Sequence[int], values: StateValues) -> None:
        """Keep what was fetched for these slots."""

    @abstractmethod
    def write(self, changes: ChangeBlockBuilder) -> None:
        """Write what was changed: clears, then deletes, then puts."""

    def request(self, slots: Sequence[int]) -> StateFetch:
        """The fetch of these slots."""
        return StateFetch(
            state_id=self.state_id,
            read=self.read_kind,
            keys=[self.prefix(slot) for slot in slots],
        )

    def prefix(self, slot: int) -> bytes:
        """Wire key and namespace: the store key but for the element."""
        return self._link.keys.wire_keys[slot] + VOID_NAMESPACE

    def _load_chunk(self) -> None:
        self.was_read = True
        self._link.load(self)

    def _described(self, slot: int) -> str:
        key = shown_key(self._link.keys.keys[slot], self._link.key_type)
        return f"{self._link.where}: state {self.descriptor.name!r}, key {key}"

    def _refused(
        self, slot: int, info: TypeInfo, problem: SerializationError
    ) -> SerializationError:
        """The error of a written value that is not of the state's type."""
        return SerializationError(
            f"{self._described(slot)}: the value cannot be written as {info}: {problem}"
        )

    def _null_refused(self, method: str) -> SerializationError:
        """The error of a null given to a state that takes none."""
        return SerializationError(
            f"{self._described(self._current_key.slot)}: {method} was given None, and a "
            f"{StateKind.Name(self.descriptor.kind)} state takes no null: leave the element out, "
            "or call clear() to remove what is stored"
        )

    def _check_size(self, slot: int, size: int, info: TypeInfo) -> None:
        limit = self._link.settings.value_bytes
        if size > limit:
            raise LimitExceededError(
                f"{self._described(slot)}: a value of type {info} takes {size} bytes, "
                f"{limit} are allowed: keep less in it, or spread it over a MapState"
            )


def value_codec(
    versions: Iterable[SchemaVersion], declared: TypeInfo, of: Callable[[TypeInfo], TypeInfo] | None
) -> ValueCodec:
    """The codec of a registered type: writes the declared one, reads every one there was."""
    types = {version.version: TypeInfo.from_proto(version.type) for version in versions}
    current = next((v for v in sorted(types, reverse=True) if types[v] == declared), None)
    if current is None:
        raise InternalError(f"type {declared} is not among the registered {list(types.values())}")
    if of is not None:
        types = {version: of(info) for version, info in types.items()}
    return ValueCodec(types, current, pickle_values=True, unpickle=True)


def point_values(slots: Sequence[int], values: StateValues) -> Iterable[tuple[int, bytes | None]]:
    """Slots with the value fetched for each, None where there is none."""
    if len(values.values) + len(values.missing) != len(slots):
        raise InternalError(
            f"{len(slots)} keys were fetched; the answer has {len(values.values)} values and "
            f"{len(values.missing)} missing"
        )
    if not values.missing:
        return zip(slots, values.values, strict=True)
    missing = set(values.missing)
    found = iter(values.values)
    return [
        (slot, None if position in missing else next(found)) for position, slot in enumerate(slots)
    ]
