"""Filling the base of a new store with records that were written down before."""

from __future__ import annotations

from abc import ABC, abstractmethod
from operator import ge, itemgetter
from typing import TYPE_CHECKING, Self

from queryable_state.wire.errors import CorruptDataError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

_KEY = itemgetter(0)


class BulkLoad(ABC):
    """Records on their way into the base of a store nobody shares yet.

    On one thread, any. The store is not read before the block ended well; a store
    whose load failed is to be destroyed.
    """

    def put(self, state_id: int, records: Sequence[tuple[bytes, bytes]]) -> None:
        """Take some records, in key order; the next ones may start over from lower keys.

        The state must have been added. Raises `CorruptDataError` for keys out of order.
        """
        if not records:
            return
        keys = list(map(_KEY, records))
        if any(map(ge, keys, keys[1:])):
            raise CorruptDataError(
                f"stored records of state {state_id} are not in key order: the file is damaged"
            )
        self._take(state_id, keys, records)

    @abstractmethod
    def _take(
        self, state_id: int, keys: list[bytes], records: Sequence[tuple[bytes, bytes]]
    ) -> None:
        """Take records in strict order; `keys` are theirs."""

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
