"""A peer as an asyncio process asks it: single keys, missing keys, hundreds of keys at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Awaitable


class Peer(Protocol):
    """A client of one server; `async with` opens and closes it."""

    name: str

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *exc_info: object) -> None: ...
    def ask(self, number: int) -> Awaitable[object]:
        """Asks for one key."""
        ...

    def is_right(self, number: int, answer: Any) -> bool:
        """Whether the answer is the key's, at any revision."""
        ...

    def ask_missing(self, number: int) -> Awaitable[object]:
        """Asks for a key that is not there; what the client raises for it counts as the answer."""
        ...

    def is_missing(self, number: int, answer: Any) -> bool:
        """Whether the answer says that there is none."""
        ...

    def ask_many(self, start: int) -> Awaitable[object]:
        """Asks for `BATCH_KEYS` keys from a number on."""
        ...

    def are_right(self, start: int, answers: Any) -> bool:
        """Whether all of them are right."""
        ...

    def is_at(self, revision: int, answers: Any) -> bool:
        """Whether an answer to `ask_many` was read at a revision or a later one."""
        ...

    def texts(self, answers: Any) -> list[str | None]:
        """The values of an answer to `ask_many`; None where there is none."""
        ...
