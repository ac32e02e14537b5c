"""Queries that wait for the next commit of a job."""

from __future__ import annotations

import asyncio

from queryable_state.wire.errors import Reason, RetryLaterError

_MOST_PARKED = 65_536


class WaitingQueries:
    """Waits for commits of one job. For the event loop only.

    A query that wakes up checks its condition again: besides the commit, a lost ownership or
    lease wakes it, too.
    """

    def __init__(self) -> None:
        self._versions: dict[asyncio.Future[None], int] = {}

    def __len__(self) -> int:
        return len(self._versions)

    async def park(self, version: int, timeout_s: float) -> None:
        """Waits for the commit of `version` or a later one, for `wake`, or for the timeout."""
        if len(self._versions) >= _MOST_PARKED:
            raise RetryLaterError(
                f"{len(self._versions)} queries wait for the next commit of this job, which is "
                "the limit: retry after it",
                reason=Reason.OVERLOADED,
                retry_after_ms=100,
            )
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._versions[woken] = version
        try:
            await asyncio.wait((woken,), timeout=timeout_s)
        finally:
            self._versions.pop(woken, None)

    def committed(self, version: int) -> None:
        """Wakes the queries that wait for a batch up to this one."""
        for woken, wanted in list(self._versions.items()):
            if wanted <= version:
                _wake(woken)

    def wake(self) -> None:
        """Wakes all queries."""
        for woken in list(self._versions):
            _wake(woken)


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
