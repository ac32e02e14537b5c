"""State store over any backend: a stack of overlays with commits, compaction and views."""

from __future__ import annotations

from threading import Lock, RLock
from typing import TYPE_CHECKING
from weakref import WeakSet

from queryable_state.server.storage.layered import layer_stack
from queryable_state.server.storage.layered.base_clean_up import BaseCleanUp
from queryable_state.server.storage.layered.canonical_snapshot import CanonicalSnapshot
from queryable_state.server.storage.layered.compaction import Compaction
from queryable_state.server.storage.layered.compaction_generation import CompactionGeneration
from queryable_state.server.storage.layered.stack_view import StackView
from queryable_state.server.storage.layered.timer_reads import first_timers
from queryable_state.server.storage.layered.versions import Versions
from queryable_state.server.storage.overlay import overlay_size
from queryable_state.server.storage.refusals import no_time_index, store_closed, unknown_state
from queryable_state.server.storage.store import NOTHING_COMMITTED, StateStore, Token
from queryable_state.server.storage.time_index import NextTimers, by_time, index_id
from queryable_state.wire.errors import (
    InvalidRequestError,
    Reason,
    RetryLaterError,
    SupersededError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from queryable_state.server.storage.base import StateBase
    from queryable_state.server.storage.bulk_load import BulkLoad
    from queryable_state.server.storage.overlay import Overlay
    from queryable_state.server.storage.snapshot import StoreSnapshot

_LOAD_RECORDS = 1 << 40


class LayeredStore(StateStore):
    """A `StateStore` over a `StateBase`.

    Every bulk call holds `_bulk_lock` and a flush holds `_flush_lock`; `close` takes both
    and so waits for them. Readers never lock: they read one immutable stack. An overlay
    stays in that stack, in front of the half-written base, until it is compacted.
    """

    def __init__(self, base: StateBase, committed_version: int = NOTHING_COMMITTED) -> None:
        self._base = base
        self.properties = base.properties
        self.write_failure = base.write_failure
        self._versions = Versions(base, committed_version)
        self._bulk_lock = RLock()
        self._flush_lock = Lock()
        self._generation = CompactionGeneration()
        self._compaction: Compaction | None = None
        self._base_clean_up = BaseCleanUp(base)
        self._views: WeakSet[StackView] = WeakSet()
        self._state_ids = frozenset(base.state_ids())
        self._closed = False

    @property
    def base_version(self) -> int:
        return self._versions.base_version

    @property
    def committed_version(self) -> int:
        return self._versions.committed_version

    @property
    def staged_version(self) -> int | None:
        staged = self._versions.staged
        return None if staged is None else staged.version

    @property
    def staged_token(self) -> Token | None:
        staged = self._versions.staged
        return None if staged is None else staged.token

    @property
    def staged_bytes(self) -> int:
        staged = self._versions.staged
        return 0 if staged is None else staged.overlay.size_bytes

    @property
    def overlay_bytes(self) -> int:
        return self.staged_bytes + sum(each.overlay.size_bytes for each in self._versions.sealed)

    def add_state(self, state_id: int, *, timers: bool = False) -> None:
        with self._bulk_lock:
            self._check_open()
            if state_id not in self._state_ids:
                self._base.add_state(state_id)
                self._state_ids |= {state_id}
            if timers:
                self._base.add_time_index(state_id)

    def next_timers(self, state_id: int, overlay: Overlay | None = None) -> NextTimers:
        with self._bulk_lock:
            self._check_open()
            layers = self._versions.committed_readers.layers(state_id)
            if overlay is not None and state_id in overlay.states:
                layers.insert(0, overlay.states[state_id])
            try:
                index = self._base.source(index_id(state_id))
            except KeyError:
                raise no_time_index(state_id) from None
            return NextTimers.of(first_timers(list(map(by_time, layers)), index))

    def seal(self, version: int, overlay: Overlay, token: Token) -> None:
        self._check_open()
        self._check_known(overlay.state_ids)
        self._versions.seal(version, overlay, token)

    def discard_staged(self) -> None:
        self._versions.discard_staged()

    def commit(self, version: int) -> Overlay | None:
        self._check_open()
        return self._versions.commit(version)

    def compact(self, up_to: int, max_records: int) -> bool:
        with self._bulk_lock:
            self._check_open()
            while max_records > 0 and (
                compaction := self._compaction or self._begin_compaction(up_to)
            ):
                done, more = compaction.advance(max_records)
                max_records -= done
                if not more:
                    self._compaction = None
                    self._versions.compacted(compaction.overlay)
            if self._compaction is not None or self._versions.oldest(up_to) is not None:
                return True
            self._versions.skip_empty(up_to)
            return False

    def clean_up(
        self, state_id: int, start: bytes, max_records: int, is_gone: Callable[[bytes], bool]
    ) -> bytes | None:
        with self._bulk_lock:
            self._check_open()
            if self._compaction is not None:
                return start
            end, self._generation = self._base_clean_up.step(
                state_id, start, max_records, is_gone, self._generation, list(self._views)
            )
            return end

    def get(self, state_id: int, key: bytes, uncommitted: bool = False) -> bytes | None:
        return self.reader(state_id, uncommitted)(key)

    def reader(self, state_id: int, uncommitted: bool = False) -> Callable[[bytes], bytes | None]:
        versions = self._versions
        return (versions.staged_readers if uncommitted else versions.committed_readers)[state_id]

    def prefix(
        self, state_id: int, prefix: bytes, uncommitted: bool = False, limit: int = 0
    ) -> list[tuple[bytes, bytes]]:
        versions = self._versions
        readers = versions.staged_readers if uncommitted else versions.committed_readers
        layers = readers.layers(state_id)
        try:
            source = self._base.source(state_id)
        except KeyError:
            raise unknown_state(state_id) from None
        return layer_stack.prefix(layers, source, prefix, limit)

    def operator_state(self, state_id: int, uncommitted: bool = False) -> list[bytes]:
        versions = self._versions
        readers = versions.staged_readers if uncommitted else versions.committed_readers
        self._check_known((state_id,))
        return list(readers.operator_states().get(state_id, ()))

    def view(self, version: int | None = None) -> StackView:
        with self._bulk_lock:
            self._check_open()
            pinned, readers = self._versions.readers_at(version)
            view = StackView(
                pinned, readers, self._base, self._generation, self._bulk_lock, self._views.discard
            )
            self._views.add(view)
            return view

    def flush(self) -> None:
        with self._flush_lock:
            self._check_open()
            self._base.flush()

    def snapshot(self, version: int, directory: Path | None = None) -> StoreSnapshot:
        with self._bulk_lock:
            self._check_open()
            if version > self.committed_version:
                raise RetryLaterError(
                    f"no snapshot of version {version} before it is committed: the store is at "
                    f"version {self.committed_version}",
                    reason=Reason.BEHIND,
                )
            view = self.view(version)
            if directory is None or not self._base.has_files:
                return CanonicalSnapshot(view, self._base.sizes())
            with view:
                if self._compaction is not None or version > self.base_version:
                    raise RetryLaterError(
                        f"no native snapshot of version {version}: it is not compacted, compact "
                        "the store up to it first",
                        reason=Reason.BEHIND,
                    )
                return self._base.native_snapshot(version, directory, view.operator_states())

    def bulk_load(self) -> BulkLoad:
        with self._bulk_lock:
            self._check_open()
            self._check_unshared()
            return self._base.bulk_load()

    def load_operator_states(self, states: Mapping[int, Sequence[bytes]]) -> None:
        with self._bulk_lock:
            self._check_open()
            self._check_unshared()
            self._check_known(states)
            self._versions.loaded(
                self.committed_version,
                {state_id: tuple(elements) for state_id, elements in states.items()},
            )

    def load(self, version: int, overlay: Overlay) -> None:
        with self._bulk_lock:
            self._check_open()
            self._check_unshared()
            self._check_known(overlay.state_ids)
            if version < self.committed_version:
                raise SupersededError(
                    f"version {version} cannot be loaded: the store is at version "
                    f"{self.committed_version} already",
                    reason=Reason.ALREADY_COMMITTED,
                )
            Compaction(overlay, self._base, None).advance(_LOAD_RECORDS)
            self._versions.loaded(version, overlay.operator_states)

    def approximate_size(self, state_id: int) -> tuple[int, int]:
        with self._bulk_lock:
            self._check_open()
            try:
                records, size_bytes = self._base.approximate_size(state_id)
                source = self._base.source(state_id)
            except KeyError:
                raise unknown_state(state_id) from None
            overlays = [each.overlay.states.get(state_id) for each in self._versions.sealed]
            added, added_bytes = overlay_size(
                (each for each in overlays if each is not None), source
            )
            return max(0, records + added), max(0, size_bytes + added_bytes)

    def close(self) -> None:
        with self._flush_lock, self._bulk_lock:
            if self._closed:
                return
            self._closed = True
            self._versions.close()
            self._compaction = None
            for view in list(self._views):
                view.close()
            self._generation = CompactionGeneration()
            self._base.close()

    def destroy(self) -> None:
        self.close()
        self._base.destroy()

    def _begin_compaction(self, up_to: int) -> Compaction | None:
        """Starts with the oldest overlay up to this version; None if there is none."""
        oldest = self._versions.oldest(up_to)
        if oldest is None:
            return None
        overlay = oldest.overlay
        needed = any(view.needs_image_before(overlay) for view in list(self._views))
        image = self._base.preserve(overlay.states.keys()) if needed else None
        self._generation = self._generation.end(image)
        self._versions.base_version = oldest.version
        self._compaction = Compaction(overlay, self._base, image)
        return self._compaction

    def _check_open(self) -> None:
        if self._closed:
            raise store_closed()

    def _check_known(self, state_ids: Collection[int]) -> None:
        for state_id in state_ids:
            if state_id not in self._state_ids:
                raise unknown_state(state_id)

    def _check_unshared(self) -> None:
        versions = self._versions
        if versions.sealed or versions.staged is not None or self._views:
            raise InvalidRequestError(
                "cannot load records into a store with sealed versions or open views: load it "
                "before it is shared"
            )
