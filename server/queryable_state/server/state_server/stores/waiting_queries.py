"""Queries that wait for what a job commits next."""

from __future__ import annotations

import asyncio

from queryable_state.wire.errors import Reason, RetryLaterError

_MOST_PARKED = 65_536


class WaitingQueries:
    """Who waits for a job to commit a batch. Event loop only.

    What is woken looks again at whatever it waits for: it is woken by the batch, but
    also when something else may have become of it.
    """

    def __init__(self) -> None:
        self._versions: dict[asyncio.Future[None], int] = {}

    def __len__(self) -> int:
        return len(self._versions)

    async def park(self, version: int, timeout_s: float) -> None:
        """Returns with the commit of `version` or a later one, when woken, or when time is over."""
        if len(self._versions) >= _MOST_PARKED:
            raise RetryLaterError(
                f"{len(self._versions)} queries wait for this job's next commit already, as many "
                "as may: ask again after it",
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
        """Wakes those who waited for a batch up to this one."""
        for woken, wanted in list(self._versions.items()):
            if wanted <= version:
                _wake(woken)

    def wake(self) -> None:
        """Wakes everybody."""
        for woken in list(self._versions):
            _wake(woken)


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
