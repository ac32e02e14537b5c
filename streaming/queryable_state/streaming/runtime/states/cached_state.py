"""Base of a task's states: a write-back cache of fetched and written values by slot."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, Protocol

from queryable_state.internal.v1.backend_pb2 import StateFetch, StateValues
from queryable_state.streaming.runtime.pickling import pickled
from queryable_state.v1.query_pb2 import ReadKind, Records
from queryable_state.v1.registration_pb2 import StateKind
from queryable_state.wire.errors import (
    InternalError,
    JobError,
    LimitExceededError,
    Reason,
    SerializationError,
)
from queryable_state.wire.schema.type_model import Kind
from queryable_state.wire.schema.types import TypeInfo
from queryable_state.wire.values.normal_form import is_mutable, normaliser
from queryable_state.wire.values.value_codec import ValueCodec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from queryable_state.internal.v1.backend_pb2 import DueTimers
    from queryable_state.streaming.descriptors import StateDescriptor
    from queryable_state.streaming.runtime.states.settings import RuntimeSettings
    from queryable_state.v1.registration_pb2 import SchemaVersion, StateRegistration
    from queryable_state.wire.changes import ChangeBlockBuilder


class SlotTable(Protocol):
    """The slots of some states of a task, numbered from 0. A slot keeps its number."""

    @property
    def chunk_slots(self) -> Sequence[int]:
        """Distinct slots of the newest chunk: a state that is read is fetched for all of them."""
        ...

    def __len__(self) -> int: ...

    def prefix(self, slot: int) -> bytes:
        """Wire key and namespace of a slot: the store key without the element."""
        ...

    def prefixes(self, slots: Sequence[int]) -> list[bytes]:
        """The prefix of each of these slots."""
        ...

    def shown(self, slot: int) -> str:
        """The key, and the window if there is one, for error texts."""
        ...


class CurrentKey:
    """The slot of the current element's key, shared by a task's states."""

    __slots__ = ("slot",)

    def __init__(self) -> None:
        self.slot = 0


class NoCurrentKeyError(CurrentKey):
    """The current key while no element is being processed; reading `slot` raises JobError."""

    __slots__ = ("_state_name",)

    def __init__(self, state_name: str) -> None:
        self._state_name = state_name

    @property
    def slot(self) -> NoReturn:  # type: ignore[override]
        raise JobError(
            f"state {self._state_name!r} is used without a current key: read and write states "
            "only in process_element",
            reason=Reason.INVALID_REQUEST,
        )


@dataclass(frozen=True, slots=True)
class CacheCodec:
    """Conversions between values, cached values and stored bytes.

    A function reads the decoded form of the stored bytes, also for a value written in this batch.
    So a task caches a value of an immutable type as a Python object in normal form, and a value of
    a mutable type (a list, a map, a pickle, a row with one of these) as bytes. Each read of a
    mutable value creates a new object, so changing it in place does not change the state.
    """

    hold: Callable[[Any], Any]
    """Written value to cached value; SerializationError if it is None or not of the type."""
    give: Callable[[Any], Any]
    """Cached value to the value that a function reads."""
    take: Callable[[bytes], Any]
    """Stored bytes to cached value."""
    data: Callable[[Any], bytes]
    """Cached value to stored bytes."""

    @staticmethod
    def of(codec: ValueCodec) -> CacheCodec:
        """The conversions of the codec's type."""
        if codec.type_info.kind == Kind.PICKLED:
            return _of_pickles(codec)
        if is_mutable(codec.type_info):
            return CacheCodec(codec.encode, codec.decode, _same, _same)
        hold = normaliser(codec.type_info, codec.read_back)
        return CacheCodec(hold, _same, codec.decode, codec.encode)


def _same(value: Any) -> Any:
    return value


_ATOMS = frozenset((bool, int, float, str, bytes, type(None)))


def _of_pickles(codec: ValueCodec) -> CacheCodec:
    """Conversions of pickled values: atoms and tuples of atoms are cached without pickling.

    This makes plain accumulators such as (sum, count) cheap. Such a value is cached inside a
    one-element tuple, which distinguishes it from pickle bytes.
    """

    def hold(value: Any) -> Any:
        kind = value.__class__
        if kind in _ATOMS or (kind is tuple and _ATOMS.issuperset(map(type, value))):
            return (value,)
        return codec.encode(value)

    def give(held: Any) -> Any:
        return held[0] if held.__class__ is tuple else codec.decode(held)

    def data(held: Any) -> bytes:
        return codec.encode(held[0]) if held.__class__ is tuple else held

    return CacheCodec(hold, give, _same, data)


class Unseen:
    """Marker of a slot that was neither read nor written."""


UNSEEN: Final = Unseen()


@dataclass(frozen=True, kw_only=True)
class StateContext:
    """Slots, settings and fetch functions that states of a task share."""

    current_key: CurrentKey
    table: SlotTable
    key_type: TypeInfo
    settings: RuntimeSettings
    batch_id: int
    batch_timestamp_ms: int
    watermark_ms: int
    """`NO_WATERMARK` before the first one."""
    due: DueTimers
    """The first page of due timers."""
    where: str
    """Operator, subtask and batch, for error texts."""
    load: Callable[[CachedState], None]
    """Fetches a state for the unseen slots of the chunk."""
    fetch: Callable[[StateFetch], StateValues]
    """Sends a single fetch."""


class CachedState(ABC):
    """One state of one task. A written value takes precedence over one fetched later.

    Call order: `bind` after the task's begin; `grow` for each chunk; `enter` before and `leave`
    after the elements of a chunk; `write` once at the end.
    """

    read_kind: ClassVar[ReadKind.ValueType] = ReadKind.POINT

    def __init__(self, descriptor: StateDescriptor) -> None:
        self.descriptor = descriptor
        self.was_read = False
        """True once a chunk has read the state; later chunks prefetch it."""
        self.state_id = 0
        self.windowed = False
        """True if the slots of the state are those of keys and windows; set before `bind`."""
        self._current_key: CurrentKey = NoCurrentKeyError(descriptor.name)
        self._context: StateContext

    def bind(self, registration: StateRegistration, context: StateContext) -> None:
        """Sets the registered state id and types."""
        self.state_id = registration.state_id
        self._context = context

    @property
    def table(self) -> SlotTable:
        """The table that numbers the slots, after `bind`."""
        return self._context.table

    def enter(self) -> None:
        """Allows access: elements are processed, and `current_key` has their key."""
        self._current_key = self._context.current_key

    def leave(self) -> None:
        """Forbids access until the next `enter`."""
        self._current_key = NoCurrentKeyError(self.descriptor.name)

    @abstractmethod
    def grow(self, slots: int) -> None:
        """Makes room for this number of slots."""

    @abstractmethod
    def is_unseen(self, slot: int) -> bool:
        """True if a read of the slot needs a fetch."""

    @abstractmethod
    def take(self, slots: Sequence[int], values: StateValues) -> None:
        """Caches the fetched values of these slots."""

    def take_absent(self, slots: Sequence[int]) -> None:
        """Caches that nothing is stored for these slots."""
        if self.read_kind == ReadKind.POINT:
            self.take(slots, StateValues(missing=range(len(slots))))
        else:
            self.take(slots, StateValues(records=[Records()] * len(slots)))

    @abstractmethod
    def write(self, changes: ChangeBlockBuilder) -> None:
        """Writes the changes: clears, then deletes, then puts."""

    def request(self, slots: Sequence[int]) -> StateFetch:
        """The fetch of these slots."""
        return StateFetch(
            state_id=self.state_id,
            read=self.read_kind,
            keys=self._context.table.prefixes(slots),
        )

    def prefix(self, slot: int) -> bytes:
        """Wire key and namespace: the store key without the element."""
        return self._context.table.prefix(slot)

    def _load_chunk(self) -> None:
        self.was_read = True
        self._context.load(self)

    def _described(self, slot: int) -> str:
        key = self._context.table.shown(slot)
        return f"{self._context.where}: state {self.descriptor.name!r}, key {key}"

    def _refused(
        self, slot: int, info: TypeInfo, problem: SerializationError
    ) -> SerializationError:
        """The error for a written value that is not of the state's type."""
        return SerializationError(
            f"{self._described(slot)}: the value cannot be written as {info}: {problem}"
        )

    def _null_refused(self, method: str) -> SerializationError:
        """The error for a null passed to a state that accepts none."""
        return SerializationError(
            f"{self._described(self._current_key.slot)}: {method} was called with None, but a "
            f"{StateKind.Name(self.descriptor.kind)} state takes no null: omit the element, or "
            "call clear() to remove the state of the key"
        )

    def _argument_refused(self, method: str, expected: str, given: object) -> SerializationError:
        """The error for an argument of another shape than the method takes."""
        where = self._described(self._current_key.slot)
        return SerializationError(f"{where}: {method} takes {expected}, not {given!r:.100}")

    def _check_size(self, slot: int, size: int, info: TypeInfo) -> None:
        limit = self._context.settings.value_bytes
        if size > limit:
            raise LimitExceededError(
                f"{self._described(slot)}: a value of type {info} has {size} bytes, but "
                f"spark.queryable_state.value_bytes is {limit}: store less, or use a MapState"
            )


def value_codec(
    versions: Iterable[SchemaVersion], declared: TypeInfo, of: Callable[[TypeInfo], TypeInfo] | None
) -> ValueCodec:
    """The codec of a registered type: encodes the declared version, decodes all versions."""
    types = {version.version: TypeInfo.from_proto(version.type) for version in versions}
    current = next((v for v in sorted(types, reverse=True) if types[v] == declared), None)
    if current is None:
        raise InternalError(f"type {declared} is not among the registered {list(types.values())}")
    # The declared type has the Python classes of its rows.
    types[current] = declared
    if of is not None:
        types = {version: of(info) for version, info in types.items()}
    return ValueCodec(types, current, pickler=pickled, unpickle=True)


def point_values(slots: Sequence[int], values: StateValues) -> Iterable[tuple[int, bytes | None]]:
    """Pairs of slot and fetched value; the value is None if there is none."""
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
