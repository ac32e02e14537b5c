"""Refusals of queries in the last minute, by caller, state and limit."""

from __future__ import annotations

import time
from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.server.security.access.grants import StateName

_SLOT_S: Final = 5
_SLOTS: Final = 12
# Callers and states that one slot tells apart; further ones count only in the total.
_MOST: Final = 256


@dataclass(frozen=True)
class Refusal:
    """A caller and the limit of a state that it has reached."""

    caller: str
    name: StateName
    limit: str


class RecentRefusals:
    """Counts refusals in slots of five seconds. For the event loop only, but for `total`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.total: Counter[str] = Counter()
        """All refusals, by name of the limit."""
        self._clock = clock
        self._slots: deque[tuple[int, Counter[Refusal]]] = deque(maxlen=_SLOTS)

    def add(self, refusal: Refusal) -> None:
        """Counts one refusal."""
        self.total[refusal.limit] += 1
        number = int(self._clock() // _SLOT_S)
        if not self._slots or self._slots[-1][0] != number:
            self._slots.append((number, Counter()))
        slot = self._slots[-1][1]
        if refusal in slot or len(slot) < _MOST:
            slot[refusal] += 1

    def last_minute(self) -> Counter[Refusal]:
        """The refusals of the last 55 to 60 seconds."""
        oldest = int(self._clock() // _SLOT_S) - _SLOTS + 1
        whole: Counter[Refusal] = Counter()
        for number, slot in self._slots:
            if number >= oldest:
                whole.update(slot)
        return whole
