"""Results of lookups that do not read a whole value: map entry, presence, size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.client._reading.states import KvState
from queryable_state.v1 import query_pb2

if TYPE_CHECKING:
    from queryable_state.client._reading.decode_context import DecodeContext
    from queryable_state.client._reading.info import ReadInfo


class MapEntry(KvState):
    """One entry of a map at one version."""

    __slots__ = ()
    kind = "map entry"

    def value(self) -> Any:
        """The value of the entry; None if it is null."""
        return self._decode()


class Presence:
    """Presence of a key or map entry; usable as a condition."""

    __slots__ = ("_context", "is_present", "ttl_ms")

    def __init__(self, data: bytes | None, context: DecodeContext) -> None:
        """`data` is None if nothing is stored."""
        self.is_present = data is not None
        self.ttl_ms = None if data is None else _ttl_ms(query_pb2.Presence.FromString(data))
        """As `KvState.ttl_ms`; None for a whole list or map."""
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

    __slots__ = ("_context", "elements", "ttl_ms", "value_bytes")

    def __init__(self, data: bytes, context: DecodeContext) -> None:
        size = query_pb2.Size.FromString(data)
        self.elements: int = size.elements
        """Number of map entries or list elements; 1 for the other kinds."""
        self.value_bytes: int = size.value_bytes
        """Bytes of the stored values."""
        self.ttl_ms = _ttl_ms(size)
        """As `KvState.ttl_ms`."""
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


def _ttl_ms(answer: query_pb2.Presence | query_pb2.Size) -> int | None:
    return answer.remaining_ms if answer.HasField("remaining_ms") else None
