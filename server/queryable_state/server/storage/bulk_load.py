"""Filling the base of a new store with records that were written down before."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType


class BulkLoad(ABC):
    """Records on their way into the base of a store nobody shares yet.

    On one thread, any. Records of a state come in key order; another source
    (other key groups) may start over from lower keys. Nothing is readable before
    the block ends well; a store whose load failed is to be destroyed.
    """

    @abstractmethod
    def put(self, state_id: int, records: Sequence[tuple[bytes, bytes]]) -> None:
        """Take some records, in key order. The state must have been added."""

    @abstractmethod
    def finish(self) -> None:
        """Make all records readable."""

    @abstractmethod
    def abandon(self) -> None:
        """Let go of what is open after a failure."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc is None:
            self.finish()
        else:
            self.abandon()
