"""Position of a watch in the committed changes of a state."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from queryable_state.wire.keys.store_keys import changed_record_key

if TYPE_CHECKING:
    from queryable_state.v1 import watch_pb2


class Position(NamedTuple):
    """How far a watch has come; positions are ordered."""

    batch: int
    """Every change up to this batch is behind it."""

    after_change: bytes = b""
    """Of the batch after that: the changes up to this store key are behind it."""

    @classmethod
    def of(cls, change: watch_pb2.KvChange, batch: int) -> Position:
        """The position directly behind a change of a batch."""
        return cls(batch - 1, changed_record_key(change))
