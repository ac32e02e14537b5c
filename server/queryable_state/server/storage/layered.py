"""Versions over any base: the stack of overlays, its commits, folds and views."""

from __future__ import annotations

from threading import Lock, RLock
from typing import TYPE_CHECKING
from weakref import WeakSet

from queryable_state.server.storage import layers as stack
from queryable_state.server.storage.epochs import Epoch
from queryable_state.server.storage.folding import Folding
from queryable_state.server.storage.readers import ClosedReaders, Readers, Sealed, store_closed
from queryable_state.server.storage.stack_view import StackView, unknown_state
from queryable_state.server.storage.store import NOTHING_COMMITTED, StateStore, Token
from queryable_state.wire.errors import (
    InvalidRequestError,
    Reason,
    RetryLaterError,
    SupersededError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.server.storage.base import StateBase
    from queryable_state.server.storage.overlay import Overlay


class LayeredStore(StateStore):
    """A `StateStore` over a `StateBase`.

    `_lock` guards the pointers (stack, staged, versions) and is held for a few
    assignments only. `_bulk_lock` is held by every bulk call, so that `close`
    can wait for it. Readers never lock: they take one immutable stack. While an
    overlay is being folded it stays in that stack, in front of the half-written base.
    """

    def __init__(self, base: StateBase, committed_version: int = NOTHING_COMMITTED) -> None:
        if committed_version < NOTHING_COMMITTED:
            raise InvalidRequestError(
                f"a store cannot start at version {committed_version}: "
                f"{NOTHING_COMMITTED} means that nothing is committed"
            )
        self._base = base
        self._lock = Lock()
        self._bulk_lock = RLock()
        self._base_version = self._committed_version = committed_version
        self._sealed: tuple[Sealed, ...] = ()  # committed, newest first
        self._staged: Sealed | None = None
        self._epoch = Epoch()
        self._folding: Folding | None = None
        self._views: WeakSet[StackView] = WeakSet()
        self._state_ids: frozenset[int] = frozenset()
        self._closed = False
        self._committed_readers = self._staged_readers = Readers(base, ())

    @property
    def base_version(self) -> int:
        return self._base_version

    @property
    def committed_version(self) -> int:
        return self._committed_version

    @property
    def staged_version(self) -> int | None:
        staged = self._staged
        return None if staged is None else staged.version

    @property
    def staged_token(self) -> Token | None:
        staged = self._staged
        return None if staged is None else staged.token

    @property
    def staged_bytes(self) -> int:
        staged = self._staged
        return 0 if staged is None else staged.overlay.size_bytes

    @property
    def overlay_bytes(self) -> int:
        return self.staged_bytes + sum(each.overlay.size_bytes for each in self._sealed)

    def add_state(self, state_id: int) -> None:
        with self._bulk_lock:
            self._check_open()
            if state_id not in self._state_ids:
                self._base.add_state(state_id)
                self._state_ids |= {state_id}

    def seal(self, version: int, overlay: Overlay, token: Token) -> None:
        self._check_open()
        for state_id in overlay.states:
            if state_id not in self._state_ids:
                raise unknown_state(state_id)
        with self._lock:
            if version <= self._committed_version:
                raise SupersededError(
                    f"batch {version} is committed (the store is at {self._committed_version}): "
                    "its result stands, stop this attempt",
                    reason=Reason.ALREADY_COMMITTED,
                )
            staged = self._staged
            if staged is not None and token < staged.token:
                raise SupersededError(
                    f"batch {version}, attempt {token}: attempt {staged.token} has sealed batch "
                    f"{staged.version} since: stop this attempt",
                    reason=Reason.STALE_TOKEN,
                )
            if staged is not None and version > staged.version:
                raise RetryLaterError(
                    f"batch {version} cannot be sealed while batch {staged.version} is sealed and "
                    "not committed: commit or discard that one first",
                    reason=Reason.BEHIND,
                )
            self._staged = Sealed(version, overlay, token)
            self._publish()

    def discard_staged(self) -> None:
        with self._lock:
            if self._staged is not None:
                self._staged = None
                self._publish()

    def commit(self, version: int) -> None:
        self._check_open()
        with self._lock:
            if version <= self._committed_version:
                return
            staged = self._staged
            if staged is not None and staged.version <= version:
                self._staged = None
                if staged.overlay.states:
                    self._sealed = (staged, *self._sealed)
            self._committed_version = version
            self._publish()

    def fold(self, up_to: int, max_records: int) -> bool:
        with self._bulk_lock:
            self._check_open()
            while max_records > 0 and (folding := self._folding or self._begin_folding(up_to)):
                done, more = folding.advance(max_records)
                max_records -= done
                if not more:
                    self._end_folding()
            if self._folding is not None or self._oldest(up_to) is not None:
                return True
            self._pass_empty_versions(up_to)
            return False

    def get(self, state_id: int, key: bytes, uncommitted: bool = False) -> bytes | None:
        return (self._staged_readers if uncommitted else self._committed_readers)[state_id](key)

    def reader(self, state_id: int, uncommitted: bool = False) -> Callable[[bytes], bytes | None]:
        return (self._staged_readers if uncommitted else self._committed_readers)[state_id]

    def prefix(
        self, state_id: int, prefix: bytes, uncommitted: bool = False, limit: int = 0
    ) -> list[tuple[bytes, bytes]]:
        readers = self._staged_readers if uncommitted else self._committed_readers
        layers = readers.layers(state_id)
        try:
            source = self._base.source(state_id)
        except KeyError:
            raise unknown_state(state_id) from None
        return stack.prefix(layers, source, prefix, limit)

    def view(self, version: int | None = None) -> StackView:
        with self._bulk_lock:
            self._check_open()
            with self._lock:
                sealed, staged = self._sealed, self._staged
                committed = self._committed_version
            wanted = committed if version is None else version
            if wanted < self._base_version:
                raise SupersededError(
                    f"version {wanted} is folded away: the oldest one kept is {self._base_version}"
                )
            if wanted > committed:
                if staged is None or staged.version != wanted:
                    raise RetryLaterError(
                        f"version {wanted} is not there yet: the store is at {committed}",
                        reason=Reason.BEHIND,
                    )
                sealed = (staged, *sealed)
            overlays = tuple(each.overlay for each in sealed if each.version <= wanted)
            view = StackView(
                wanted, overlays, self._base, self._epoch, self._bulk_lock, self._views.discard
            )
            self._views.add(view)
            return view

    def approximate_size(self, state_id: int) -> tuple[int, int]:
        with self._bulk_lock:
            self._check_open()
            try:
                return self._base.approximate_size(state_id)
            except KeyError:
                raise unknown_state(state_id) from None

    def close(self) -> None:
        with self._bulk_lock, self._lock:
            if self._closed:
                return
            self._closed = True
            self._committed_readers = self._staged_readers = ClosedReaders(self._base, ())
            self._sealed, self._staged, self._folding = (), None, None
            for view in list(self._views):
                view.close()
            self._epoch = Epoch()
            self._base.close()

    def destroy(self) -> None:
        self.close()
        self._base.destroy()

    def _publish(self) -> None:
        """Make the pointers visible to readers; the lock is held."""
        self._committed_readers = Readers(self._base, self._sealed)
        self._staged_readers = (
            self._committed_readers
            if self._staged is None
            else Readers(self._base, (self._staged, *self._sealed))
        )

    def _oldest(self, up_to: int) -> Sealed | None:
        """The overlay to be folded next, if it is committed and not above `up_to`."""
        sealed = self._sealed
        return sealed[-1] if sealed and sealed[-1].version <= up_to else None

    def _begin_folding(self, up_to: int) -> Folding | None:
        """Start on the oldest overlay up to this version, if there is one."""
        oldest = self._oldest(up_to)
        if oldest is None:
            return None
        overlay = oldest.overlay
        needed = any(view.needs_image_before(overlay) for view in list(self._views))
        image = self._base.preserve(overlay.states.keys()) if needed else None
        self._epoch = self._epoch.end(image)
        self._base_version = oldest.version
        self._folding = Folding(overlay, self._base, image)
        return self._folding

    def _end_folding(self) -> None:
        """Take the folded overlay from the stack: the base answers for it from here on."""
        with self._lock:
            self._folding = None
            self._sealed = self._sealed[:-1]
            self._publish()

    def _pass_empty_versions(self, up_to: int) -> None:
        """Move the base version over versions that have no overlay to fold."""
        with self._lock:
            newest_passed = min(up_to, self._committed_version)
            if not self._sealed or self._sealed[-1].version > newest_passed:
                self._base_version = max(self._base_version, newest_passed)

    def _check_open(self) -> None:
        if self._closed:
            raise store_closed()
