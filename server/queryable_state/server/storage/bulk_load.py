"""Interface for filling the base of a new store with stored records."""

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
    """A load of records into the base of a store that is not shared yet.

    A context manager for one thread, any. Nothing reads the store before the block
    ends; the caller destroys a store whose load failed.
    """

    def put(self, state_id: int, records: Sequence[tuple[bytes, bytes]]) -> None:
        """Adds records in key order; the next call may begin at lower keys.

        The state must have been added. Raises `CorruptDataError` for keys out of order.
        """
        if not records:
            return
        keys = list(map(_KEY, records))
        if any(map(ge, keys, keys[1:])):
            raise CorruptDataError(
                f"stored records of state {state_id} are not in key order: the file is damaged"
            )
        self._put_sorted(state_id, keys, records)

    @abstractmethod
    def _put_sorted(
        self, state_id: int, keys: list[bytes], records: Sequence[tuple[bytes, bytes]]
    ) -> None:
        """Adds records in strictly ascending order; `keys` are the keys of `records`."""

    @abstractmethod
    def finish(self) -> None:
        """Makes all records readable."""

    @abstractmethod
    def abandon(self) -> None:
        """Releases all resources after a failure."""

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
