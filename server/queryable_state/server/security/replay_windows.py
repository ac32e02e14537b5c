"""Memory of the signed calls that were received, so that none counts twice."""

from __future__ import annotations

from dataclasses import dataclass

WINDOW = 4096
"""Calls of one session that may overtake each other."""

_MOST_SESSIONS = 100_000


@dataclass(slots=True)
class _Session:
    newest: int
    """Highest number received."""
    seen: int
    """Bit i: number `newest - i` was received."""
    last_ms: int
    """Latest time of a call."""


class ReplayWindows:
    """The received numbers of each session.

    Its size depends on the number of callers, not of calls: for each session it holds the highest
    number and one bit for each of the `WINDOW` numbers before it. `forget` drops sessions whose
    every call is too old to be accepted. Not thread-safe.
    """

    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def is_full(self) -> bool:
        """True if there is no room for another session."""
        return len(self._sessions) >= _MOST_SESSIONS

    def is_new(self, session: str, number: int, time_ms: int) -> bool:
        """Records a call; False if it was recorded before, or is too far behind to know."""
        known = self._sessions.get(session)
        if known is None:
            self._sessions[session] = _Session(number, 1, time_ms)
            return True
        ahead = number - known.newest
        if ahead > 0:
            known.seen = 1 if ahead >= WINDOW else (known.seen << ahead | 1) & _MASK
            known.newest = number
        elif -ahead >= WINDOW or known.seen >> -ahead & 1:
            return False
        else:
            known.seen |= 1 << -ahead
        known.last_ms = max(known.last_ms, time_ms)
        return True

    def forget(self, before_ms: int) -> None:
        """Drops sessions without a call at or after this time."""
        self._sessions = {
            session: known
            for session, known in self._sessions.items()
            if known.last_ms >= before_ms
        }


_MASK = (1 << WINDOW) - 1
