"""What the states of one answer have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.client._reading.info import ReadInfo

if TYPE_CHECKING:
    from queryable_state.v1 import query_pb2
    from queryable_state.wire.errors import QueryableStateError
    from queryable_state.wire.state_codecs import StateCodecs


class DecodeContext:
    """How the states of an answer are decoded, and their info."""

    __slots__ = ("_info", "codecs", "proto")

    def __init__(self, codecs: StateCodecs, proto: query_pb2.ReadInfo) -> None:
        self.codecs = codecs
        self.proto = proto
        self._info: ReadInfo | None = None

    @property
    def info(self) -> ReadInfo:
        """Where and when the states were read."""
        if self._info is None:
            self._info = ReadInfo.from_proto(self.proto)
        return self._info


class RefusedContext(DecodeContext):
    """The reading of one state that is there and was not answered."""

    __slots__ = ("_refusal",)

    def __init__(self, refusal: QueryableStateError, proto: query_pb2.ReadInfo) -> None:
        self._refusal = refusal
        self.proto = proto
        self._info = None

    @property
    def codecs(self) -> StateCodecs:  # type: ignore[override]  # what would decode it refuses
        raise self._refusal.copy()
