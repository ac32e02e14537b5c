"""Store of one state partition of a Spark query, read as records of our states."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from queryable_state.server.native_state.store.native_view import (
    NativeView,
    PeersView,
    only_found,
)
from queryable_state.server.native_state.store.raw_reads import CommittedReads
from queryable_state.server.native_state.store.refusals import not_in_native_state
from queryable_state.server.storage.refusals import unknown_state
from queryable_state.server.storage.store import StateStore, Token
from queryable_state.wire.errors import SupersededError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from queryable_state.server.native_state.operators.state_layout import StateLayout
    from queryable_state.server.native_state.store.batch_times import BatchTimes
    from queryable_state.server.storage.bulk_load import BulkLoad
    from queryable_state.server.storage.overlay import Overlay
    from queryable_state.server.storage.snapshot import StoreSnapshot
    from queryable_state.server.storage.store import StateView
    from queryable_state.server.storage.time_index import NextTimers

_KEPT_STORES = 4
"""Stores of older snapshots that still answer reads of older versions."""


class NativeStore(StateStore):
    """Translates reads of a store of raw records, one state id a layout; threads as `StateStore`.

    A newer batch is either an overlay of raw records (`seal`) or, if Spark wrote a whole snapshot
    instead of changes, another raw store (`replace`); `commit` makes it visible. The replaced
    stores answer reads of their versions until newer ones replace them; the caller closes those
    of `take_retired`.

    Reads by key do not depend on the partition in the key. If Spark does not place keys by their
    hash, each store reads them in all partitions of its operator, its `peers`, one of which may
    have the key.
    """

    def __init__(
        self,
        raw: StateStore,
        layouts: Mapping[int, StateLayout],
        partition: int,
        batch_times: BatchTimes,
        peers: Sequence[NativeStore] = (),
    ) -> None:
        """`peers`: the stores in which this one reads keys, itself among them; empty: itself. The
        caller may add to them."""
        self.layouts = layouts
        self.partition = partition
        self._batch_times = batch_times
        self._raws: tuple[StateStore, ...] = (raw,)
        self._next: tuple[int, StateStore] | None = None
        self._retired: list[StateStore] = []
        self._changes: Overlay | None = None
        self._reads = CommittedReads(lambda: self.raw, batch_times)
        self._readers: dict[int, Callable[[bytes], bytes | None]] = {
            state_id: _reader(layout, self._reads) for state_id, layout in layouts.items()
        }
        self._peers = peers
        self.properties = lambda: self.raw.properties()
        self.write_failure = lambda: self.raw.write_failure()

    @property
    def raw(self) -> StateStore:
        """The store of the newest raw records."""
        return self._raws[-1]

    @property
    def base_version(self) -> int:
        return self._raws[0].base_version

    @property
    def committed_version(self) -> int:
        return self.raw.committed_version

    @property
    def staged_version(self) -> int | None:
        return self.raw.staged_version if self._next is None else self._next[0]

    @property
    def staged_token(self) -> Token | None:
        return self.raw.staged_token

    @property
    def staged_bytes(self) -> int:
        return self.raw.staged_bytes

    @property
    def overlay_bytes(self) -> int:
        return sum(raw.overlay_bytes for raw in self._raws)

    def seal(self, version: int, overlay: Overlay, token: Token) -> None:
        """Stages the raw changes of a batch; call `describe` with the same changes by state."""
        self._changes = None
        self.raw.seal(version, overlay, token)

    def replace(self, version: int, raw: StateStore) -> None:
        """Stages a store of the raw records of `version` in place of the present one."""
        self._changes = None
        self._next = version, raw

    def describe(self, changes: Overlay) -> None:
        """Sets the changes by queryable state; `commit` of the staged version returns them."""
        self._changes = changes

    def discard_staged(self) -> None:
        self.raw.discard_staged()
        self._changes = None
        if self._next is not None:
            self._retired.append(self._next[1])
            self._next = None

    def commit(self, version: int) -> Overlay | None:
        """As `StateStore.commit`; returns None if `describe` was not called for the version."""
        if version <= self.committed_version:
            return None
        if self._next is not None:
            raws = (*self._raws, self._next[1])
            self._next = None
            self._retired.extend(raws[: -1 - _KEPT_STORES])
            self._raws = raws[-1 - _KEPT_STORES :]
        self.raw.commit(version)
        changes, self._changes = self._changes, None
        return changes

    def take_retired(self) -> list[StateStore]:
        """The stores that answer no reads any more; the caller destroys them in the background."""
        retired, self._retired = self._retired, []
        return retired

    def compact(self, up_to: int, max_records: int) -> bool:
        return self.raw.compact(up_to, max_records)

    def get(self, state_id: int, key: bytes, uncommitted: bool = False) -> bytes | None:
        return self.reader(state_id)(key)

    def reader(self, state_id: int, uncommitted: bool = False) -> Callable[[bytes], bytes | None]:
        try:
            reader = self._readers[state_id]
        except KeyError:
            raise unknown_state(state_id) from None
        return partial(self._only_found, state_id) if self._peers else reader

    def _only_found(self, state_id: int, key: bytes) -> bytes | None:
        """The value of a store key in the only peer that has it."""
        return only_found((each.partition, each._readers[state_id](key)) for each in self._peers)

    def prefix(
        self, state_id: int, prefix: bytes, uncommitted: bool = False, limit: int = 0
    ) -> list[tuple[bytes, bytes]]:
        layout = self._layout(state_id)
        if not self._peers:
            return layout.prefix(self._reads, prefix, limit)
        reads = (
            (each.partition, layout.prefix(each._reads, prefix, limit) or None)
            for each in self._peers
        )
        return only_found(reads) or []

    def view(self, version: int | None = None) -> StateView:
        view = self.own_view(version)
        if not self._peers:
            return view
        others = [peer for peer in self._peers if peer is not self]
        return PeersView(view, lambda: [peer.own_view(view.version) for peer in others])

    def own_view(self, version: int | None = None) -> NativeView:
        """As `view`, without the records of the other partitions."""
        newest = self.raw
        if version is None or version >= newest.base_version:
            return self._translated(newest, version)
        for raw in reversed(self._raws[:-1]):
            if raw.base_version <= version <= raw.committed_version:
                return self._translated(raw, version)
        raise SupersededError(
            f"version {version} is not kept: the oldest readable version is {self.base_version}, "
            "and Spark wrote no changes between its snapshots"
        )

    def staged_view(self) -> NativeView:
        """A view of the staged version, before its commit; of this partition alone."""
        if self._next is not None:
            return self._translated(self._next[1], None)
        return self._translated(self.raw, self.raw.staged_version)

    def approximate_size(self, state_id: int) -> tuple[int, int]:
        sizes = [self.raw.approximate_size(each) for each in self._layout(state_id).sources]
        return sum(records for records, _ in sizes), sum(size for _, size in sizes)

    def flush(self) -> None:
        self.raw.flush()

    def close(self) -> None:
        for raw in self._all():
            raw.close()

    def destroy(self) -> None:
        for raw in self._all():
            raw.destroy()

    def _all(self) -> list[StateStore]:
        staged = [] if self._next is None else [self._next[1]]
        return [*self._raws, *self._retired, *staged]

    def _translated(self, raw: StateStore, version: int | None) -> NativeView:
        view = raw.view(version)
        return NativeView(view, self.layouts, self.partition, self._batch_times.at(view.version))

    def _layout(self, state_id: int) -> StateLayout:
        try:
            return self.layouts[state_id]
        except KeyError:
            raise unknown_state(state_id) from None

    # The rest of the interface is for stores that tasks write.

    def add_state(self, state_id: int, *, timers: bool = False) -> None:
        raise not_in_native_state("another state")

    def next_timers(self, state_id: int, overlay: Overlay | None = None) -> NextTimers:
        raise not_in_native_state("the next timers")

    def clean_up(
        self, state_id: int, start: bytes, max_records: int, is_gone: Callable[[bytes], bool]
    ) -> bytes | None:
        raise not_in_native_state("clean-up of expired values")

    def operator_state(self, state_id: int, uncommitted: bool = False) -> list[bytes]:
        raise not_in_native_state("operator state")

    def bulk_load(self) -> BulkLoad:
        raise not_in_native_state("a bulk load")

    def load_operator_states(self, states: Mapping[int, Sequence[bytes]]) -> None:
        raise not_in_native_state("operator state")

    def load(self, version: int, overlay: Overlay) -> None:
        raise not_in_native_state("a load")

    def snapshot(self, version: int, directory: Path | None = None) -> StoreSnapshot:
        raise not_in_native_state("a snapshot")


def _reader(layout: StateLayout, reads: CommittedReads) -> Callable[[bytes], bytes | None]:
    get = layout.get
    return lambda key: get(reads, key)
