"""What queries answer that are not of a whole value: an entry, its presence, a size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.client._reading.states import KvState
from queryable_state.v1 import query_pb2

if TYPE_CHECKING:
    from queryable_state.client._reading.decode_context import DecodeContext
    from queryable_state.client._reading.info import ReadInfo


class MapEntry(KvState):
    """The value of one entry of a map, as it was at one version."""

    __slots__ = ()
    kind = "map entry"

    def value(self) -> Any:
        """The value; None of an entry whose value is null."""
        return self._decode()


class Presence:
    """Whether something is stored; true or false as a condition."""

    __slots__ = ("_context", "is_present")

    def __init__(self, data: bytes | None, context: DecodeContext) -> None:
        """`data` is None where nothing is stored."""
        self.is_present = data is not None
        self._context = context

    @property
    def info(self) -> ReadInfo:
        """The batch it was looked for in, its clocks, and who answered."""
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
    """How much is stored under one key and namespace."""

    __slots__ = ("_context", "elements", "value_bytes")

    def __init__(self, data: bytes, context: DecodeContext) -> None:
        size = query_pb2.Size.FromString(data)
        self.elements: int = size.elements
        """Entries of a map, elements of a list; 1 for the other kinds."""
        self.value_bytes: int = size.value_bytes
        """Bytes of the stored values."""
        self._context = context

    @property
    def info(self) -> ReadInfo:
        """The batch it was measured in, its clocks, and who answered."""
        return self._context.info

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} at batch {self.info.version}: {self.elements} elements, "
            f"{self.value_bytes} bytes>"
        )
