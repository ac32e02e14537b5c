"""Committed change of one record, as a watch returns it."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from queryable_state.client._short_repr import short_fields

if TYPE_CHECKING:
    from queryable_state.wire.keys.time_window import TimeWindow


class ChangeKind(enum.Enum):
    """Kind of a change."""

    PUT = "PUT"
    """A value or map entry was written: `new`, which may be equal to `old`."""
    DELETE = "DELETE"
    """A value or map entry was removed."""
    APPEND = "APPEND"
    """Elements were appended to a list: `new` is the list of these."""
    CLEAR = "CLEAR"
    """Every element of a list, or every entry of a map, was removed. What the same batch writes
    behind that follows as further changes."""
    GAP = "GAP"
    """Changes are missing: the servers do not have them any more. Read the state again; later
    changes follow."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One change of one record in one committed batch, or a gap."""

    kind: ChangeKind

    key: Any
    """The key; None for a GAP."""

    new: Any = None
    """PUT: the value. APPEND: the list of appended elements. Else None."""

    old: Any = None
    """PUT and DELETE: the value before the batch; None if there was none or it is unknown. A value
    that has expired is still the old one."""

    is_old_known: bool = True
    """False if the servers did not have the old value any more."""

    batch: int
    """The batch that made the change; of a GAP the last batch with missing changes."""

    commit_time_ms: int
    """Milliseconds since the epoch at which that batch was committed; 0: unknown."""

    window: TimeWindow | None = None
    """Of a state with windows: the window of the value."""

    map_key: Any = None
    """Of a map: the key of the entry; None for CLEAR."""

    first_missed_batch: int | None = None
    """Of a GAP: the first batch with missing changes."""

    @classmethod
    def gap(cls, first_batch: int, last_batch: int) -> Change:
        """The change that tells of missing ones."""
        return cls(
            kind=ChangeKind.GAP,
            key=None,
            is_old_known=False,
            batch=last_batch,
            commit_time_ms=0,
            first_missed_batch=first_batch,
        )

    def __repr__(self) -> str:
        return short_fields(self)
