"""The timer of one connection."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class ClientTimer:
    """The one timer of a connection: for its hello, later for what its client owes, then its end.

    Whoever sets it must clear it at the end: it holds what it calls.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None

    @property
    def is_set(self) -> bool:
        """Whether a call is to come."""
        return self._handle is not None

    def set(self, after_s: float, call: Callable[[], object]) -> None:
        """Calls after a while, in place of what was to be called."""
        self.clear()
        self._handle = self._loop.call_later(after_s, self._due, call)

    def clear(self) -> None:
        """Calls nothing. Idempotent."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _due(self, call: Callable[[], object]) -> None:
        self._handle = None
        call()
