"""Results of lookups that do not read a whole value: map entry, list slice, presence, size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

from queryable_state.client._reading.states import (
    NOT_DECODED,
    KvState,
    takes_no_key,
)
from queryable_state.v1 import query_pb2
from queryable_state.wire.schema.type_variables import T, V
from queryable_state.wire.state_codecs import decode_list
from queryable_state.wire.values.lifetime import chunk_remaining_ms

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from queryable_state.client._reading.info import ReadInfo
    from queryable_state.client._reading.states import DecodeContext


class MapEntry(KvState, Generic[V]):
    """One entry of a map at one version."""

    __slots__ = ()
    kind = "map entry"

    def value(self) -> V | None:
        """The value of the entry; None if it is null."""
        value: V | None = self._decode()
        return value


class ListSlice(KvState, Generic[T]):
    """Consecutive elements of a list at one version."""

    __slots__ = ("_found",)
    kind = "list slice"

    def __init__(self, data: bytes, context: DecodeContext) -> None:
        super().__init__(data, context)
        self._found = query_pb2.ListSlice.FromString(data)

    @property
    def start(self) -> int:
        """Position of the first of these elements in the list, from 0."""
        return self._found.start

    @property
    def limit(self) -> int | None:
        """The limit of the lookup; None: it had none."""
        return self._found.limit or None

    @property
    def length(self) -> int:
        """Number of elements of the whole list."""
        return self._found.length

    def get(self, key: Any = None) -> list[T]:
        """A copy of the elements of the slice."""
        takes_no_key(self, key)
        return list(self._decode())

    def element_remaining_ms(self) -> list[int | None]:
        """Milliseconds from the read until each element of the slice expires; None: never."""
        return chunk_remaining_ms(self._found.chunks, self._context.proto)

    def is_empty(self) -> bool:
        """True if the list has no element at `start`."""
        return not self._found.chunks

    def __iter__(self) -> Iterator[T]:
        return iter(self._decode())

    def __len__(self) -> int:
        return len(self._decode())

    def _stored(self) -> Sequence[bytes]:
        return self._found.chunks

    def _decode(self) -> Any:
        if self._decoded is NOT_DECODED:
            self._decoded = decode_list(self._found.chunks, self._context.codecs.value)
        return self._decoded


class Presence:
    """Presence of a key or map entry; usable as a condition."""

    __slots__ = ("_context", "is_present", "remaining_ms")

    def __init__(self, data: bytes | None, context: DecodeContext) -> None:
        """`data` is None if nothing is stored."""
        self.is_present = data is not None
        self.remaining_ms = (
            None if data is None else _remaining_ms(query_pb2.Presence.FromString(data))
        )
        """As `KvState.remaining_ms`; None for a whole list or map."""
        self._context = context

    @property
    def info(self) -> ReadInfo:
        """The batch of the lookup, its clocks, and the server that answered."""
        return self._context.info

    def __bool__(self) -> bool:
        return self.is_present

    def __eq__(self, other: object) -> bool:
        return self.is_present == other if isinstance(other, bool | Presence) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.is_present)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at batch {self.info.version}: {self.is_present}>"


class Size:
    """Size of the state under one key and namespace."""

    __slots__ = ("_context", "elements", "remaining_ms", "value_bytes")

    def __init__(self, data: bytes, context: DecodeContext) -> None:
        size = query_pb2.Size.FromString(data)
        self.elements: int = size.elements
        """Number of map entries or list elements; 1 for the other kinds."""
        self.value_bytes: int = size.value_bytes
        """Bytes of the stored values."""
        self.remaining_ms = _remaining_ms(size)
        """As `KvState.remaining_ms`."""
        self._context = context

    @property
    def info(self) -> ReadInfo:
        """The batch of the lookup, its clocks, and the server that answered."""
        return self._context.info

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} at batch {self.info.version}: {self.elements} elements, "
            f"{self.value_bytes} bytes>"
        )


def _remaining_ms(answer: query_pb2.Presence | query_pb2.Size) -> int | None:
    return answer.remaining_ms if answer.HasField("remaining_ms") else None
