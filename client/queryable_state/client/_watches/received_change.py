"""Change of one record as a server sent it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from queryable_state.client._watches.change import Change, ChangeKind
from queryable_state.client._watches.position import Position
from queryable_state.v1 import registration_pb2, watch_pb2
from queryable_state.wire.keys.time_window import TimeWindow

if TYPE_CHECKING:
    from queryable_state.wire.state_codecs import StateCodecs

_KINDS = {
    watch_pb2.PUT: ChangeKind.PUT,
    watch_pb2.DELETE: ChangeKind.DELETE,
    watch_pb2.APPEND: ChangeKind.APPEND,
    watch_pb2.CLEAR: ChangeKind.CLEAR,
}


class ReceivedChange(NamedTuple):
    """A change with encoded key and values, and what it takes to decode it."""

    change: watch_pb2.KvChange
    batch: int
    commit_time_ms: int
    kind: registration_pb2.StateKind.ValueType
    codecs: StateCodecs

    @property
    def position(self) -> Position:
        """The position directly behind it."""
        return Position.of(self.change, self.batch)

    @property
    def size_bytes(self) -> int:
        """Its size in a message."""
        return self.change.ByteSize()

    def decoded(self) -> Change:
        """The change as the caller gets it; raises `CorruptDataError` for invalid bytes."""
        change, codecs = self.change, self.codecs
        window = map_key = None
        if change.HasField("window"):
            window = TimeWindow.of_proto(change.window)
        if self.kind == registration_pb2.MAP and change.element:
            assert codecs.map_key is not None
            map_key = codecs.map_key.decode_all(change.element)
        return Change(
            kind=_KINDS[change.kind],
            key=codecs.key_groups.decode_key(change.key),
            new=codecs.value.decode(change.value) if change.HasField("value") else None,
            old=codecs.value.decode(change.old_value) if change.HasField("old_value") else None,
            is_old_known=not change.old_unknown,
            batch=self.batch,
            commit_time_ms=self.commit_time_ms,
            window=window,
            map_key=map_key,
        )
