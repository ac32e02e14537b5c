"""Calls that go on while something happens."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable


class Asking:
    """Calls one after the other by several tasks, until the block ends; none may fail."""

    def __init__(self, ask: Callable[[], Awaitable[None]], tasks: int = 4) -> None:
        self.answered = 0
        self._ask = ask
        self._tasks = tasks

    async def more(self, count: int = 50) -> None:
        """Waits until so many more calls are answered."""
        wanted = self.answered + count
        await eventually(lambda: self.answered >= wanted)

    async def _on_and_on(self) -> None:
        while True:
            await self._ask()
            self.answered += 1

    @contextlib.asynccontextmanager
    async def under_way(self) -> AsyncIterator[Asking]:
        asking = [asyncio.create_task(self._on_and_on()) for _ in range(self._tasks)]
        try:
            yield self
        finally:
            for task in asking:
                task.cancel()
            failed = [
                outcome
                for outcome in await asyncio.gather(*asking, return_exceptions=True)
                if not isinstance(outcome, asyncio.CancelledError)
            ]
        assert failed == [], failed
