"""Read-only states of one key, as queries return them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn

from queryable_state.client._notebook.html import state_html
from queryable_state.client._reading.info import ReadInfo
from queryable_state.client._short_repr import short_repr
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import InvalidRequestError, QueryableStateError, Reason
from queryable_state.wire.schema.type_variables import OUT, K, T, V
from queryable_state.wire.values.lifetime import chunk_remaining_ms, expires_at_ms, remaining_ms

if TYPE_CHECKING:
    from collections.abc import ItemsView, Iterator, KeysView, Sequence, ValuesView

    from queryable_state.wire.keys.time_window import TimeWindow
    from queryable_state.wire.state_codecs import StateCodecs


NOT_DECODED: Any = object()
"""Marker of a value that was not decoded yet."""


class DecodeContext:
    """Codecs, `ReadInfo` and window of the states of one answer."""

    __slots__ = ("_info", "codecs", "proto", "window")

    def __init__(
        self,
        codecs: StateCodecs,
        proto: query_pb2.ReadInfo,
        window: TimeWindow | None = None,
    ) -> None:
        self.codecs = codecs
        self.proto = proto
        self.window = window
        """The window of the states; None: they have none."""
        self._info: ReadInfo | None = None

    @property
    def info(self) -> ReadInfo:
        """The batch at which the states were read, and the server that answered."""
        if self._info is None:
            self._info = ReadInfo.from_proto(self.proto)
        return self._info

    @property
    def label(self) -> str:
        """Window and batch, for people."""
        of = f" of {self.info.checkpoint}" if self.info.checkpoint else ""
        where = f"in {self.window} " if self.window else ""
        return f"{where}at batch {self.info.version}{of}"


class RefusedContext(DecodeContext):
    """Context of a state that exists but that the server could not return."""

    __slots__ = ("_refusal",)

    def __init__(self, refusal: QueryableStateError, context: DecodeContext) -> None:
        self._refusal = refusal
        self.proto = context.proto
        self.window = context.window
        self._info = None

    @property
    def codecs(self) -> StateCodecs:  # type: ignore[override]  # decoding raises the refusal
        raise self._refusal.copy()


class KvState:
    """The state under one key and namespace at one version.

    Base class of the states of each kind. It has the methods of all kinds, so that callers need
    no cast: a method that the kind does not have, and every method that would change the state,
    raises `InvalidRequestError`. Values are decoded on first access.
    """

    __slots__ = ("_context", "_data", "_decoded")

    kind: ClassVar[str] = "state"

    def __init__(self, data: bytes, context: DecodeContext, decoded: Any = NOT_DECODED) -> None:
        self._data = data
        self._context = context
        self._decoded = decoded

    @property
    def info(self) -> ReadInfo:
        """The batch at which the state was read, its clocks, and the server that answered."""
        return self._context.info

    @property
    def window(self) -> TimeWindow | None:
        """The window of the state; None for a state without windows."""
        return self._context.window

    @property
    def remaining_ms(self) -> int | None:
        """Milliseconds from the read until the state expires, 0 if it is expired; None: never.

        A list or a map expires with its last element.
        """
        return remaining_ms(self._stored(), self._context.proto)

    @property
    def expires_at_ms(self) -> int | None:
        """Milliseconds since the epoch at which the state expires; None: never."""
        return expires_at_ms(self._stored(), self._context.proto)

    def element_remaining_ms(self) -> Any:
        """`remaining_ms` of each element: a list for a list, a dict by key for a map."""
        self._has_no("element_remaining_ms")

    def value(self) -> Any:
        """The value of a value state."""
        self._has_no("value")

    def get(self, key: Any = None) -> Any:
        """The list, reduced value or aggregate result; for a map, the value of the entry `key`."""
        self._has_no("get")

    def keys(self) -> KeysView[Any]:
        """The keys of a map."""
        self._has_no("keys")

    def values(self) -> ValuesView[Any]:
        """The values of a map."""
        self._has_no("values")

    def items(self) -> ItemsView[Any, Any]:
        """The entries of a map."""
        self._has_no("items")

    def contains(self, key: Any) -> bool:
        """True if a map has an entry `key`."""
        self._has_no("contains")

    def is_empty(self) -> bool:
        """True if a map or list is empty."""
        self._has_no("is_empty")

    def update(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises `InvalidRequestError`: queried states are read-only."""
        self._is_read_only("update")

    def add(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises `InvalidRequestError`."""
        self._is_read_only("add")

    def add_all(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises `InvalidRequestError`."""
        self._is_read_only("add_all")

    def put(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises `InvalidRequestError`."""
        self._is_read_only("put")

    def put_all(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises `InvalidRequestError`."""
        self._is_read_only("put_all")

    def remove(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises `InvalidRequestError`."""
        self._is_read_only("remove")

    def clear(self) -> NoReturn:
        """Raises `InvalidRequestError`."""
        self._is_read_only("clear")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._context.label}: {short_repr(self._content())}>"

    def _repr_html_(self) -> str:
        return state_html(f"{type(self).__name__} {self._context.label}", self._content())

    def _content(self) -> Any:
        """The whole state as a Python value, or the error of decoding it."""
        try:
            return self._decode()
        except QueryableStateError as refusal:
            return refusal

    def _decode(self) -> Any:
        if self._decoded is NOT_DECODED:
            self._decoded = self._context.codecs.value.decode(self._data)
        return self._decoded

    def _stored(self) -> Sequence[bytes]:
        """The stored values."""
        return (self._data,)

    def _has_no(self, method: str) -> NoReturn:
        raise InvalidRequestError(
            f"a {self.kind} has no {method}(): {self._methods()}", reason=Reason.UNSUPPORTED
        )

    def _is_read_only(self, method: str) -> NoReturn:
        raise InvalidRequestError(
            f"{method}() would change a {self.kind}, and a queried state is read-only: only its "
            "job writes it",
            reason=Reason.UNSUPPORTED,
        )

    def _methods(self) -> str:
        own = [name for name in vars(type(self)) if not name.startswith("_") and name != "kind"]
        return "it has " + ", ".join(f"{name}()" for name in own)


class ValueState(KvState, Generic[T]):
    """One value."""

    __slots__ = ()
    kind = "value state"

    def value(self) -> T:
        """The value."""
        decoded = self._decoded
        value: T = self._decode() if decoded is NOT_DECODED else decoded
        return value


class ReducingState(KvState, Generic[T]):
    """The result of the job's reduce function over all elements."""

    __slots__ = ()
    kind = "reducing state"

    def get(self, key: Any = None) -> T:
        """The reduced value."""
        takes_no_key(self, key)
        value: T = self._decode()
        return value


class AggregatingState(KvState, Generic[OUT]):
    """The result of the job's aggregate function over all elements."""

    __slots__ = ()
    kind = "aggregating state"

    def get(self, key: Any = None) -> OUT:
        """The result."""
        takes_no_key(self, key)
        result: OUT = self._decode()
        return result


class RecordsState(KvState):
    """State of many records."""

    __slots__ = ()

    def _decode(self) -> Any:
        if self._decoded is NOT_DECODED:
            records = self._records()
            self._decoded = self._context.codecs.decode_records(records.elements, records.values)
        return self._decoded

    def _records(self) -> query_pb2.Records:
        return query_pb2.Records.FromString(self._data)

    def _stored(self) -> Sequence[bytes]:
        return self._records().values


class ListState(RecordsState, Generic[T]):
    """Elements in the order they were added."""

    __slots__ = ()
    kind = "list state"

    def get(self, key: Any = None) -> list[T]:
        """A copy of the elements."""
        takes_no_key(self, key)
        return list(self._decode())

    def element_remaining_ms(self) -> list[int | None]:
        """Milliseconds from the read until each element expires; None: never."""
        return chunk_remaining_ms(self._stored(), self._context.proto)

    def is_empty(self) -> bool:
        """True if there is no element."""
        return not self._decode()

    def __iter__(self) -> Iterator[T]:
        return iter(self._decode())

    def __len__(self) -> int:
        return len(self._decode())


class MapState(RecordsState, Generic[K, V]):
    """Entries, in the order of their keys."""

    __slots__ = ()
    kind = "map state"

    def get(self, key: Any = None) -> V | None:
        """The value of the entry `key`; None if there is no such entry or its value is null."""
        return self._entries().get(key)

    def keys(self) -> KeysView[K]:
        """The keys."""
        return self._entries().keys()

    def values(self) -> ValuesView[V | None]:
        """The values."""
        return self._entries().values()

    def items(self) -> ItemsView[K, V | None]:
        """The entries."""
        return self._entries().items()

    def contains(self, key: Any) -> bool:
        """True if there is an entry `key`, even if its value is null."""
        return key in self._decode()

    def element_remaining_ms(self) -> dict[Any, int | None]:
        """Milliseconds from the read until each entry expires, by key; None: never."""
        proto = self._context.proto
        remaining = (remaining_ms((value,), proto) for value in self._stored())
        # Decoded entries have the order of their records.
        return dict(zip(self._decode(), remaining, strict=True))

    def is_empty(self) -> bool:
        """True if there is no entry."""
        return not self._decode()

    def __iter__(self) -> Iterator[K]:
        return iter(self._decode())

    def __len__(self) -> int:
        return len(self._decode())

    def __contains__(self, key: object) -> bool:
        return key in self._decode()

    def _entries(self) -> dict[K, V | None]:
        entries: dict[K, V | None] = self._decode()
        return entries


def takes_no_key(state: KvState, key: Any) -> None:
    """Raises `InvalidRequestError` if `get` was called with the key of a map entry."""
    if key is not None:
        raise InvalidRequestError(f"get() of a {state.kind} takes no key: {key!r} was given")
