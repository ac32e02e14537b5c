"""The bytes that one connection of frames holds, counted in what its process may hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.server.serving.byte_budget import ClientBudgets

# Answers a client has not taken. Beyond it nothing more is read from the client, so that one that
# asks without reading fills its own buffers and not this process.
MOST_UNSENT_BYTES = 8 * 1024 * 1024


class ConnectionMemory:
    """Requests that are incomplete or not answered, and answers that the client has not taken."""

    def __init__(self, budgets: ClientBudgets) -> None:
        self._budgets = budgets
        self._held_bytes = 0
        self._unsent_bytes = 0

    def count(self, held_bytes: int, unsent_bytes: int) -> None:
        """Says what is held now, of requests and of answers."""
        requests, answers = self._budgets.requests, self._budgets.answers
        before, self._held_bytes = self._held_bytes, held_bytes
        unsent_before, self._unsent_bytes = self._unsent_bytes, unsent_bytes
        if held_bytes > before:
            requests.take(held_bytes - before)
        elif held_bytes < before:
            requests.give(before - held_bytes)
        if unsent_bytes > unsent_before:
            answers.take(unsent_bytes - unsent_before)
        elif unsent_bytes < unsent_before:
            answers.give(unsent_before - unsent_bytes)

    def has_room(self, held_bytes: int, wake: Callable[[], object]) -> bool:
        """Whether more may be read behind requests of so many bytes; else `wake` is called once,
        when there is room."""
        if self._budgets.requests.may_hold(held_bytes):
            return True
        self._budgets.requests.wait(wake)
        return False

    def may_wait(self, unsent_bytes: int) -> bool:
        """Whether answers of so many bytes may wait to be taken."""
        return unsent_bytes <= MOST_UNSENT_BYTES and self._budgets.answers.may_hold(unsent_bytes)

    def release(self, wake: Callable[[], object]) -> None:
        """Nothing is held any more, and `wake` need not be called."""
        self._budgets.requests.forget(wake)
        self.count(0, 0)
