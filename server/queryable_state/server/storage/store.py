"""What every state backend promises: versions, pinned views, seals, folding.

A store is a base and a stack of overlays, one overlay a version. Committing
moves a pointer; folding moves the oldest overlays into the base afterwards.

Threads: `seal`, `commit`, `discard_staged`, `get`, `reader` and `prefix` belong
to the event loop's thread. `view` and everything on a view, `compact`,
`approximate_size` and `add_state` belong to one bulk thread; `add_state` may
also be called before the store is shared. `close` may come from either and
waits for the bulk call under way. A read sees whole versions whatever fold or
commit runs beside it.

A store that is restored belongs to one thread, any, until it is shared, and is
filled in this order: `add_state`, `bulk_load` (or native files, on opening),
`load` for each later batch, `seal` for what was sealed and not committed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from queryable_state.server.storage.bulk_load import BulkLoad
    from queryable_state.server.storage.layered.overlay import Overlay
    from queryable_state.server.storage.snapshot import StoreSnapshot

Token = tuple[int, int]
"""(run epoch, task attempt): the order of attempts at one batch."""

NOTHING_COMMITTED = -1
"""Version of a store before the first batch."""


class StateView(ABC):
    """One version of a store, unchanged for as long as the view is open.

    A later commit, a re-seal of the same version and a fold leave it alone.
    Whoever opened it closes it; closing the store closes its views.
    """

    version: int
    """Version the view is pinned to."""

    @abstractmethod
    def get(self, state_id: int, key: bytes) -> bytes | None:
        """The value under a store key, None when there is none."""

    @abstractmethod
    def multi_get(self, state_id: int, keys: Sequence[bytes]) -> list[bytes | None]:
        """Values aligned with `keys`, None where there is none."""

    @abstractmethod
    def prefix(self, state_id: int, prefix: bytes, limit: int = 0) -> list[tuple[bytes, bytes]]:
        """Records whose key starts with `prefix`, in key order, at most `limit` (0: all)."""

    @abstractmethod
    def scan(self, state_id: int, start: bytes, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """Records with start <= key < end (None: to the last), in key order.

        Reads ahead in chunks; folds may run between two steps.
        """

    @abstractmethod
    def operator_state(self, state_id: int) -> list[bytes]:
        """The elements of an operator state, none where it was never set."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the version. Idempotent."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class StateStore(ABC):
    """The state of one operator subtask.

    Readable versions are `base_version` to `committed_version`, and
    `staged_version`. A version nobody sealed is equal to the one before it.
    Nothing here survives the process: a store starts at the version it is
    loaded at, and what is durable is the checkpoint's business.
    """

    @property
    @abstractmethod
    def base_version(self) -> int:
        """Oldest version a view can be opened at."""

    @property
    @abstractmethod
    def committed_version(self) -> int:
        """Newest committed version, `NOTHING_COMMITTED` before the first."""

    @property
    @abstractmethod
    def staged_version(self) -> int | None:
        """The version sealed and not committed."""

    @property
    @abstractmethod
    def staged_token(self) -> Token | None:
        """Token of the attempt that sealed `staged_version`."""

    @property
    @abstractmethod
    def staged_bytes(self) -> int:
        """Bytes of keys and values in the staged overlay, 0 without one."""

    @property
    @abstractmethod
    def overlay_bytes(self) -> int:
        """Bytes of keys and values in all overlays, staged or waiting to be folded."""

    @abstractmethod
    def add_state(self, state_id: int) -> None:
        """Make room for a state. Idempotent; a state must be added before it is sealed or read."""

    @abstractmethod
    def seal(self, version: int, overlay: Overlay, token: Token) -> None:
        """Stage a version, replacing what a lower or equal token staged, at once.

        Raises `SupersededError`: ALREADY_COMMITTED for a committed version,
        STALE_TOKEN below the staged token. Raises `RetryLaterError` (BEHIND) when
        an older version is staged and neither committed nor discarded. Versions
        may be skipped; a staged *newer* version falls to a higher token.
        """

    @abstractmethod
    def discard_staged(self) -> None:
        """Drop the staged overlay, if any."""

    @abstractmethod
    def commit(self, version: int) -> Overlay | None:
        """Make every version up to `version` committed, a staged one among them.

        Returns what became visible by it. Idempotent: a version at or below the
        committed one changes nothing.
        """

    @abstractmethod
    def compact(self, up_to: int, max_records: int) -> bool:
        """Move about `max_records` records of committed overlays <= `up_to` into the base.

        True when there is more to do. Views opened before keep their version;
        new ones start at the folded version.
        """

    @abstractmethod
    def get(self, state_id: int, key: bytes, uncommitted: bool = False) -> bytes | None:
        """The committed value under a store key; the staged one if `uncommitted`."""

    @abstractmethod
    def reader(self, state_id: int, uncommitted: bool = False) -> Callable[[bytes], bytes | None]:
        """`get` of one state as a bare callable, for a loop over keys.

        Good until the event loop gets control back: ask again after every await.
        """

    @abstractmethod
    def prefix(
        self, state_id: int, prefix: bytes, uncommitted: bool = False, limit: int = 0
    ) -> list[tuple[bytes, bytes]]:
        """Records whose key starts with `prefix`, in key order, at most `limit` (0: all)."""

    @abstractmethod
    def view(self, version: int | None = None) -> StateView:
        """A view pinned at `version` (None: the committed one).

        Raises `RetryLaterError` (BEHIND) for a version that is not there yet and
        `SupersededError` for one that is folded away.
        """

    @abstractmethod
    def operator_state(self, state_id: int, uncommitted: bool = False) -> list[bytes]:
        """The committed elements of an operator state (staged ones if `uncommitted`).

        None where it was never set.
        """

    @abstractmethod
    def bulk_load(self) -> BulkLoad:
        """Fill the base with records of `committed_version`, before the store is shared."""

    @abstractmethod
    def load_operator_states(self, states: Mapping[int, Sequence[bytes]]) -> None:
        """Set operator states as of `committed_version`, before the store is shared."""

    @abstractmethod
    def load(self, version: int, overlay: Overlay) -> None:
        """Write an overlay into the base at once and commit it, before the store is shared.

        `version` is the committed one or later: a version may come in several
        overlays of different key groups. Raises `SupersededError`
        (ALREADY_COMMITTED) for an earlier version, `InvalidRequestError` once
        anything is sealed or pinned.
        """

    @abstractmethod
    def flush(self) -> None:
        """Write out what the base has in memory, so that a native cut after it is short.

        On any thread, beside everything; `close` waits for it. Nothing on a backend
        without files.
        """

    @abstractmethod
    def cut(self, version: int, directory: Path | None = None) -> StoreSnapshot:
        """Hold a committed version still, to write it down.

        With a directory, which must not exist and lies on the store's file
        system, a backend that has files makes a native cut there; the base must
        be at exactly `version` then: fold up to it and not beyond. Without one,
        and on a backend without files, the cut is canonical and `version` any
        that a view can be opened at.
        Raises `RetryLaterError` (BEHIND) for a version that is not committed, or
        not folded for a native cut, `SupersededError` for one folded away.
        """

    @abstractmethod
    def approximate_size(self, state_id: int) -> tuple[int, int]:
        """(records, bytes) of a state's committed version, off by what is not compacted."""

    @abstractmethod
    def close(self) -> None:
        """Wait for the bulk call under way, close all views, let go of everything. Idempotent."""

    @abstractmethod
    def destroy(self) -> None:
        """Close, and remove what the store keeps on disk."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
