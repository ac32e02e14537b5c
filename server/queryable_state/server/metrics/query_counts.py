"""Number of queries by state and kind of read."""

from __future__ import annotations

from queryable_state.v1 import query_pb2

_KINDS: tuple[str, ...] = tuple(query_pb2.ReadKind.keys())

UNKNOWN_KIND = len(_KINDS)
"""Place of the kinds in a counter that this code does not know."""

# State ids are chosen by callers, and an id that no state has is counted, too: beyond this number
# all are counted together.
_MOST_STATES = 1024


class QueryCounts:
    """Queries by state, for a bounded number of states. One thread adds; any thread reads."""

    def __init__(self) -> None:
        self._states: dict[int, list[int]] = {}
        self._others = [0] * (UNKNOWN_KIND + 1)

    def of(self, state_id: int) -> list[int]:
        """The numbers of a state by kind of read, for the caller to keep and to increment."""
        counts = self._states.get(state_id)
        if counts is None:
            if len(self._states) >= _MOST_STATES:
                return self._others
            counts = self._states[state_id] = [0] * (UNKNOWN_KIND + 1)
        return counts

    def add(self, state_id: int, read: int) -> None:
        """Counts one query; `read` is a number that a caller sent."""
        self.of(state_id)[read if 0 <= read < UNKNOWN_KIND else UNKNOWN_KIND] += 1

    def by_state(self) -> list[tuple[int, dict[str, int]]]:
        """The numbers above 0 by state id and name of the kind; 0: states beyond the bound."""
        names = (*_KINDS, "UNKNOWN")
        return [
            (state_id, {name: number for name, number in zip(names, counts, strict=True) if number})
            for state_id, counts in [*self._states.copy().items(), (0, self._others)]
        ]
