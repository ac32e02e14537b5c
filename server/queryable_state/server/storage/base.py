"""What a backend supplies: the folded records beneath all overlays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from queryable_state.server.storage.snapshot import StateRecords

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from queryable_state.server.storage.bulk_load import BulkLoad
    from queryable_state.server.storage.layered.overlay import StateOverlay
    from queryable_state.server.storage.snapshot import StoreSnapshot


class RecordSource(ABC):
    """The records of one state at the bottom of a stack."""

    @abstractmethod
    def reader(self) -> Callable[[bytes], bytes | None]:
        """The value under a key (None: there is none), as a bare callable."""

    @abstractmethod
    def multi_get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Values aligned with `keys`."""

    @abstractmethod
    def chunk(self, start: bytes, end: bytes | None, limit: int) -> list[tuple[bytes, bytes]]:
        """The first `limit` records with start <= key < end, in order."""


class BaseImage(ABC):
    """A base as it was before one fold, as far as that fold changes it.

    It goes when nothing refers to it any more.
    """

    @abstractmethod
    def of(self, state_id: int) -> StateOverlay | RecordSource | None:
        """What differs from the base now (an overlay over it), or the whole old state.

        None when the fold does not touch the state.
        """


class StateBase(ABC):
    """The folded records of one store.

    `apply` runs on the bulk thread; sources may be read beside it from the event
    loop, which sees each record as it was before or after.
    """

    has_files: ClassVar[bool] = False
    """Whether there are native cuts."""

    @abstractmethod
    def state_ids(self) -> Collection[int]:
        """The states it was opened with and those added."""

    @abstractmethod
    def add_state(self, state_id: int) -> None:
        """Make room for a state that is not there."""

    @abstractmethod
    def source(self, state_id: int) -> RecordSource:
        """The records of a state as they are now; KeyError for a state never added."""

    @abstractmethod
    def preserve(self, state_ids: Collection[int]) -> BaseImage:
        """An image of these states, taken before the first `apply` of a fold."""

    @abstractmethod
    def apply(
        self, state_id: int, changes: Mapping[bytes, bytes | None], image: BaseImage | None
    ) -> None:
        """Put the values and remove the keys with None, keeping `image` true."""

    @abstractmethod
    def flush(self) -> None:
        """Write out what is in memory. Runs beside everything but `close`."""

    def native_cut(
        self,
        version: int,
        directory: Path,
        operator_states: Mapping[int, tuple[bytes, ...]],
    ) -> StoreSnapshot:
        """Put the files of the base as it is into a directory that is not there."""
        raise NotImplementedError

    @abstractmethod
    def bulk_load(self) -> BulkLoad:
        """Take records while nobody reads."""

    @abstractmethod
    def approximate_size(self, state_id: int) -> tuple[int, int]:
        """(records, bytes) of a state."""

    def sizes(self) -> list[StateRecords]:
        """How large each state is, by id."""
        return [
            StateRecords(state_id, *self.approximate_size(state_id))
            for state_id in sorted(self.state_ids())
        ]

    @abstractmethod
    def close(self) -> None:
        """Let go of everything. Called once; nothing else runs or follows."""

    @abstractmethod
    def destroy(self) -> None:
        """Remove what is on disk. Called after `close`."""


def prefix_end(prefix: bytes) -> bytes | None:
    """The first key after all keys with this prefix, None when there is none."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes((stripped[-1] + 1,)) if stripped else None


def key_after(key: bytes) -> bytes:
    """The smallest key greater than `key`."""
    return key + b"\x00"
