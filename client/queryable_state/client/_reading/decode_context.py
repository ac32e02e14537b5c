"""Context shared by the states of one answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.client._reading.info import ReadInfo

if TYPE_CHECKING:
    from queryable_state.v1 import query_pb2
    from queryable_state.wire.errors import QueryableStateError
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
