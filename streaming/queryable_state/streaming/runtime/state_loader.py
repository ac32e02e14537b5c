"""Fetches of the states of one task, in shared calls of bounded size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.streaming.runtime.fetch_parts import fetch_halves, fetch_parts
from queryable_state.wire.errors import LimitExceededError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.streaming.runtime.states.access import StateAccess
    from queryable_state.streaming.runtime.states.cached_state import CachedState


class StateLoader:
    """Fetches states for slots; one call has at most `fetch_keys` keys."""

    def __init__(self, access: StateAccess, fetch_keys: int) -> None:
        self._access = access
        self._fetch_keys = fetch_keys

    def load_chunk(self, *states: CachedState) -> None:
        """Fetches the unseen slots of the chunk for all these states in shared calls."""
        wanted = [
            (state, [slot for slot in state.table.chunk_slots if state.is_unseen(slot)])
            for state in states
        ]
        self.fetch(*wanted)

    def fetch(self, *wanted: tuple[CachedState, Sequence[int]]) -> None:
        """Fetches each state for its slots."""
        for part in fetch_parts(wanted, self._fetch_keys):
            self._fetch(part)

    def _fetch(self, part: list[tuple[CachedState, Sequence[int]]]) -> None:
        fetches = [state.request(slots) for state, slots in part]
        try:
            answers = self._access.fetch(fetches)
        except LimitExceededError:
            # The values exceed the limit of one response: split the request.
            if len(part) == 1 and len(part[0][1]) == 1:
                raise
            for half in fetch_halves(part):
                self._fetch(half)
            return
        for (state, slots), values in zip(part, answers, strict=True):
            state.take(slots, values)
