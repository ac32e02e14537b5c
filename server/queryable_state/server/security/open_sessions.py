"""Open sessions of clients, which end soon after their tokens."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Protocol

from queryable_state.server.process.rate_limited_log import RateLimitedLog

if TYPE_CHECKING:
    from typing import NoReturn

_log = RateLimitedLog(logging.getLogger(__name__))

_EVERY_S = 0.5
# After a change of the rules each check may verify a signature.
_TURN_S = 0.005


class CheckedSession(Protocol):
    """A session that outlives the check of its token."""

    def check(self) -> None:
        """Ends the session if its token is not valid any more; takes no time otherwise."""
        ...


class OpenSessions:
    """The sessions of one process; each is added when it opens, and discarded when it closes.

    Event loop only. While their tokens are valid, a sweep costs 0.4 us a session.
    """

    def __init__(self) -> None:
        self._sessions: set[CheckedSession] = set()

    def __len__(self) -> int:
        return len(self._sessions)

    def add(self, session: CheckedSession) -> None:
        """Checks a session from now on."""
        self._sessions.add(session)

    def discard(self, session: CheckedSession) -> None:
        """Forgets a session; idempotent."""
        self._sessions.discard(session)

    async def run(self) -> NoReturn:
        """Checks every session twice a second, in turns of 5 ms, until cancelled."""
        while True:
            await asyncio.sleep(_EVERY_S)
            await self._check_all()

    async def _check_all(self) -> None:
        # Its own call: a variable of `run` would keep the last session alive after its end.
        turn_ends_s = time.perf_counter() + _TURN_S
        # A copy: sessions open and close between the turns.
        for session in tuple(self._sessions):
            try:
                session.check()
            except Exception as problem:  # noqa: BLE001 - the others have to be checked
                _log.write(logging.ERROR, "defect", "cannot check a session", problem=problem)
            if time.perf_counter() >= turn_ends_s:
                await asyncio.sleep(0)
                turn_ends_s = time.perf_counter() + _TURN_S
