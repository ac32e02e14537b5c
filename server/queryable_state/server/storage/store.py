"""Interface of a state store: versions, pinned views, seals and compaction.

A store is a base and a stack of overlays, one overlay a version. A commit moves a
pointer; compaction moves the oldest overlays into the base afterwards.

Threads: `seal`, `commit`, `discard_staged`, `get`, `reader` and `prefix` belong
to the event loop's thread. `view`, all calls on a view, `compact`, `clean_up`, `next_timers`,
`snapshot`, `approximate_size` and `add_state` belong to one background thread; `add_state` may
also be called before the store is shared. Either thread may call `close`, which
waits for the running bulk call. A read sees whole versions, whatever compaction
or commit runs at the same time.

A store that is restored belongs to one thread, any, until it is shared, and is
filled in this order: `add_state`, `bulk_load` (or native files, on opening),
`load` for each later batch, `seal` for a batch that was sealed but not committed.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from queryable_state.server.storage.closing import Closing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from queryable_state.server.storage.bulk_load import BulkLoad
    from queryable_state.server.storage.overlay import Overlay
    from queryable_state.server.storage.snapshot import StoreSnapshot
    from queryable_state.server.storage.time_index import NextTimers
    from queryable_state.wire.errors import QueryableStateError

Token = tuple[int, int]
"""(run epoch, task attempt): the order of attempts at one batch."""

NOTHING_COMMITTED = -1
"""Version of a store before the first batch."""


class StateView(Closing):
    """One version of a store, unchanged for as long as the view is open.

    No later commit, re-seal of the same version or compaction changes it.
    The opener closes it; closing the store closes its views.
    """

    version: int
    """Version the view is pinned to."""

    @abstractmethod
    def get(self, state_id: int, key: bytes) -> bytes | None:
        """The value of a store key; None if it has none."""

    @abstractmethod
    def multi_get(self, state_id: int, keys: Sequence[bytes]) -> list[bytes | None]:
        """Values aligned with `keys`; None for a key without a value."""

    @abstractmethod
    def prefix(self, state_id: int, prefix: bytes, limit: int = 0) -> list[tuple[bytes, bytes]]:
        """Records whose key starts with `prefix`, in key order, at most `limit` (0: all)."""

    @abstractmethod
    def scan(
        self, state_id: int, start: bytes, end: bytes | None, after: bytes = b""
    ) -> Iterator[tuple[bytes, bytes]]:
        """Records with start <= key < end (None: to the last), in the order of the store.

        That is key order, unless Spark wrote the records; those of a wire key and namespace are
        always together. `after`: only records behind those that begin with this wire key, or wire
        key and namespace. Reads ahead in chunks; compaction may run between two steps.
        """

    @abstractmethod
    def due(
        self,
        state_id: int,
        processing_time_ms: int,
        event_time_ms: int | None = None,
        after: bytes = b"",
    ) -> Iterator[bytes]:
        """Index keys of the timers due at these times, both inclusive, in the order they fire.

        `event_time_ms` None: no event-time timer is due. `after`: only timers with greater index
        keys. Reads ahead in chunks, as `scan`. The state must have been added with `timers` before
        the view was opened, or it raises `UnknownStateError`.
        """

    @abstractmethod
    def operator_state(self, state_id: int) -> list[bytes]:
        """The elements of an operator state; empty if it was never set."""

    @abstractmethod
    def close(self) -> None:
        """Releases the version. Idempotent."""


class StateStore(Closing):
    """The state of one operator subtask.

    Readable versions are `base_version` to `committed_version`, and
    `staged_version`. A version without a seal is equal to the one before it.
    A store does not survive the process: it starts at the version it is loaded
    at; checkpoints and changelogs make state durable.
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
        """The version that is sealed but not committed; None if there is none."""

    @property
    @abstractmethod
    def staged_token(self) -> Token | None:
        """Token of the attempt that sealed `staged_version`; None without one."""

    @property
    @abstractmethod
    def staged_bytes(self) -> int:
        """Bytes of keys and values in the staged overlay, 0 without one."""

    @property
    @abstractmethod
    def overlay_bytes(self) -> int:
        """Bytes of keys and values in all overlays, staged or not yet compacted."""

    @abstractmethod
    def add_state(self, state_id: int, *, timers: bool = False) -> None:
        """Creates a state. Idempotent; a state must be added before it is sealed or read.

        With `timers` all its keys are store keys of timers, and the base keeps a time-ordered
        index of it, which is made from the records if they are there already.
        """

    @abstractmethod
    def next_timers(self, state_id: int, overlay: Overlay | None = None) -> NextTimers:
        """The earliest pending timers at the committed version.

        With an overlay, at the version that it will be sealed as, directly above the committed
        one. It passes over the timers that the overlay deletes, once: reads of that version need
        not do it again. For the background thread.
        """

    @abstractmethod
    def seal(self, version: int, overlay: Overlay, token: Token) -> None:
        """Stages a version in one step and replaces the stage of a lower or equal token.

        Raises `SupersededError`: ALREADY_COMMITTED for a committed version,
        STALE_TOKEN below the staged token. Raises `RetryLaterError` (BEHIND) if an
        older version is staged and neither committed nor discarded. Versions may be
        skipped. A higher token replaces a staged *newer* version too.
        """

    @abstractmethod
    def discard_staged(self) -> None:
        """Drops the staged overlay, if any."""

    @abstractmethod
    def commit(self, version: int) -> Overlay | None:
        """Commits every version up to `version`, a staged one among them.

        Returns the overlay that became visible, None without one. Idempotent: a version
        at or below the committed one changes nothing.
        """

    @abstractmethod
    def compact(self, up_to: int, max_records: int) -> bool:
        """Moves about `max_records` records of committed overlays <= `up_to` into the base.

        Returns True if more is left. Open views keep their version; a new view cannot
        be older than the compacted version.
        """

    @abstractmethod
    def clean_up(
        self, state_id: int, start: bytes, max_records: int, is_gone: Callable[[bytes], bool]
    ) -> bytes | None:
        """Removes expired values from the base: examines `max_records` keys from `start` on.

        Returns the key to continue from, None if there is no further one, `start` if a compaction
        is not finished. Open views keep their version. New views of every version may lack the
        value, so `is_gone` must be true only if each reader of `base_version` and of any later
        version treats the value as absent.
        """

    @abstractmethod
    def get(self, state_id: int, key: bytes, uncommitted: bool = False) -> bytes | None:
        """The committed value of a store key; the staged one if `uncommitted`."""

    @abstractmethod
    def reader(self, state_id: int, uncommitted: bool = False) -> Callable[[bytes], bytes | None]:
        """`get` of one state as a function, for a loop over keys.

        Valid until the event loop gets control back: get a new one after every await.
        """

    @abstractmethod
    def prefix(
        self, state_id: int, prefix: bytes, uncommitted: bool = False, limit: int = 0
    ) -> list[tuple[bytes, bytes]]:
        """Records whose key starts with `prefix`, in key order, at most `limit` (0: all)."""

    @abstractmethod
    def view(self, version: int | None = None) -> StateView:
        """A view pinned at `version` (None: the committed one).

        Raises `RetryLaterError` (BEHIND) for a version above the committed and the staged
        one, and `SupersededError` for one below `base_version`.
        """

    @abstractmethod
    def operator_state(self, state_id: int, uncommitted: bool = False) -> list[bytes]:
        """The committed elements of an operator state (staged ones if `uncommitted`).

        Empty if it was never set.
        """

    @abstractmethod
    def bulk_load(self) -> BulkLoad:
        """Starts a load of records of `committed_version`, before the store is shared."""

    @abstractmethod
    def load_operator_states(self, states: Mapping[int, Sequence[bytes]]) -> None:
        """Sets operator states as of `committed_version`, before the store is shared."""

    @abstractmethod
    def load(self, version: int, overlay: Overlay) -> None:
        """Writes an overlay into the base at once and commits it, before the store is shared.

        `version` is the committed one or later: several overlays of different key
        groups may make up one version. Raises `SupersededError` (ALREADY_COMMITTED) for an
        earlier version, and `InvalidRequestError` once a version is sealed or a view open.
        """

    @abstractmethod
    def flush(self) -> None:
        """Writes the memory of the base to disk, so that a native snapshot after it is short.

        May run on any thread, at the same time as any other call; `close` waits for it.
        A backend without files does nothing.
        """

    @abstractmethod
    def snapshot(self, version: int, directory: Path | None = None) -> StoreSnapshot:
        """Returns a snapshot of a committed version.

        With a directory, which must not exist and must be on the store's file system, a
        backend with files makes a native snapshot there. The base must then be at exactly
        `version`: compact up to it and not beyond. Without a directory, and on a backend
        without files, the snapshot is canonical, and `version` may be any at which a view
        can be opened.
        Raises `RetryLaterError` (BEHIND) for a version that is not committed or, for a
        native snapshot, not compacted, and `SupersededError` for one below `base_version`.
        """

    @abstractmethod
    def approximate_size(self, state_id: int) -> tuple[int, int]:
        """Approximate (records, bytes) of a state at the committed version."""

    properties: Callable[[], Mapping[str, int]]
    """Numbers of the backend by name, for metrics. Runs on the thread that closes the store."""

    write_failure: Callable[[], QueryableStateError | None]
    """Error after which all compactions and flushes fail: replace the store."""

    @abstractmethod
    def close(self) -> None:
        """Waits for the running bulk call, closes all views and the backend. Idempotent."""

    @abstractmethod
    def destroy(self) -> None:
        """Closes the store and removes its files."""
