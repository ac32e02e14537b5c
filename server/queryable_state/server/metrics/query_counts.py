"""Number of queries by state and kind of read."""

from __future__ import annotations

from queryable_state.v1 import query_pb2

_KINDS: tuple[str, ...] = tuple(query_pb2.ReadKind.keys())
_UNKNOWN = len(_KINDS)

# State ids are chosen by callers, and an id that no state has is counted, too. The ids beyond this
# number are counted together until the unknown ones are merged.
_MOST_STATES = 1024


class StateQueries:
    """Queries of one state by kind of read. One thread adds; any thread reads."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts = [0] * (_UNKNOWN + 1)

    def add(self, read: int) -> None:
        """Counts one query; `read` is a number that a caller sent."""
        self._counts[read if 0 <= read < _UNKNOWN else _UNKNOWN] += 1

    def by_kind(self) -> dict[str, int]:
        """The number of queries by name of the kind, without kinds that have none."""
        names = (*_KINDS, "UNKNOWN")
        return {name: count for name, count in zip(names, self._counts, strict=True) if count}


class QueryCounts:
    """Queries by state, for a bounded number of states. One thread adds; any thread reads."""

    def __init__(self) -> None:
        self._states: dict[int, StateQueries] = {}
        self._others = StateQueries()

    def of(self, state_id: int) -> StateQueries:
        """The counter of a state; callers may keep it."""
        counts = self._states.get(state_id)
        if counts is None:
            if len(self._states) >= _MOST_STATES:
                return self._others
            counts = self._states[state_id] = StateQueries()
        return counts

    def by_state(self) -> list[tuple[int, StateQueries]]:
        """The counters by state id; 0: all states beyond the bound."""
        return [*self._states.copy().items(), (0, self._others)]
