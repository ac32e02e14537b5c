"""Memory of one frame connection, counted against the budget of its process."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.server.serving.byte_budget import ClientBudgets

# Unread answers of one client. Above this limit the server stops reading from the client, so that
# a client that does not read fills its own buffers and not this process.
MOST_UNSENT_BYTES = 8 * 1024 * 1024


class ConnectionMemory:
    """Bytes of incomplete and unanswered requests, and of unread answers."""

    def __init__(self, budgets: ClientBudgets) -> None:
        self._budgets = budgets
        self._held_bytes = 0
        self._unsent_bytes = 0

    def count(self, held_bytes: int, unsent_bytes: int) -> None:
        """Sets the bytes currently held, of requests and of answers."""
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
        """True if more requests may be read; otherwise `wake` is called once there is room."""
        if self._budgets.requests.may_hold(held_bytes):
            return True
        self._budgets.requests.wait(wake)
        return False

    def may_wait(self, unsent_bytes: int) -> bool:
        """True if so many bytes of answers may wait for the client to read them."""
        return unsent_bytes <= MOST_UNSENT_BYTES and self._budgets.answers.may_hold(unsent_bytes)

    def release(self, wake: Callable[[], object]) -> None:
        """Frees everything and cancels `wake`."""
        self._budgets.requests.forget(wake)
        self.count(0, 0)
