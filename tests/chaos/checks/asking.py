"""Clients on a thread of their own, which ask a Spark job at random until they are told to stop."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from typing import TYPE_CHECKING, Self

from tests.chaos.checks.asker import Asker
from tests.chaos.jobs.workload import STATES, TIMERS, WINDOW_SUMS

from queryable_state.client import QueryableStateClient

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.chaos.checks.reads import Read

_TIMEOUT_S = 2.0
_DEADLINE_S = 60.0
_ASKERS = 3
"""Questions a client has under way."""
_PAUSE_S = 0.01


class Asking:
    """Two clients of the first proxy named that answers: of owners, and of that proxy alone."""

    def __init__(
        self,
        seed: int,
        addresses: Callable[[], Sequence[str]],
        committed: Callable[[], int],
    ) -> None:
        """`addresses`: proxies; asked again when most questions are refused."""
        self._chance = random.Random(f"asking-{seed}")
        self._addresses = addresses
        self._committed = committed
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="asking", daemon=True)
        self._failure: BaseException | None = None
        self.reads: list[Read] = []
        """All that was answered or refused so far."""

    def wait(self, count: int) -> None:
        """Returns once so many more questions have been answered."""
        wanted = self._answered() + count
        ends_at_s = time.monotonic() + _DEADLINE_S
        while self._answered() < wanted:
            assert self._thread.is_alive(), "nobody asks any more"
            assert time.monotonic() < ends_at_s, f"not {count} answers in {_DEADLINE_S:g} s"
            time.sleep(_PAUSE_S)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stopped.set()
        self._thread.join(_DEADLINE_S)
        if self._failure is not None:
            raise self._failure

    def _answered(self) -> int:
        return sum(not read.refused for read in self.reads)

    def _run(self) -> None:
        try:
            asyncio.run(self._ask())
        except BaseException as failure:  # noqa: BLE001 - raised where the thread is waited for
            self._failure = failure

    async def _ask(self) -> None:
        async with asyncio.TaskGroup() as clients:
            for direct in (True, False):
                clients.create_task(self._ask_as(direct=direct))

    async def _ask_as(self, *, direct: bool) -> None:
        while not self._stopped.is_set():
            told = self._addresses()
            if not told:
                await asyncio.sleep(_PAUSE_S)
                continue
            host, _, port = self._chance.choice(told).rpartition(":")
            async with QueryableStateClient(
                host, int(port), direct=direct, timeout_s=_TIMEOUT_S
            ) as client:
                asker = Asker(
                    client,
                    (*STATES, TIMERS, WINDOW_SUMS),
                    self._chance,
                    committed=self._committed,
                )
                refused = 0
                while refused < 2 * _ASKERS and not self._stopped.is_set():
                    asked = await asyncio.gather(*(asker.ask() for _ in range(_ASKERS)))
                    reads = [read for some in asked for read in some]
                    self.reads += reads
                    refused = refused + _ASKERS if all(r.refused for r in reads) else 0
                    await asyncio.sleep(_PAUSE_S)
