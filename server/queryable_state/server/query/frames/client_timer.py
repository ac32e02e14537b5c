"""Timer of one connection."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class ClientTimer:
    """The single timer of a connection: for the hello, then for reads, then for the close.

    The owner must clear it in the end, because it holds a reference to its callback.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None

    @property
    def is_set(self) -> bool:
        """True if a callback is scheduled."""
        return self._handle is not None

    def set(self, after_s: float, call: Callable[[], object]) -> None:
        """Schedules a callback; replaces the scheduled one."""
        self.clear()
        self._handle = self._loop.call_later(after_s, self._due, call)

    def clear(self) -> None:
        """Cancels the scheduled callback; idempotent."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _due(self, call: Callable[[], object]) -> None:
        self._handle = None
        call()
