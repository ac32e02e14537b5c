"""Versions of a store: the pointers that a commit moves and readers follow."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from queryable_state.server.storage.layered.readers import ClosedReaders, Readers, Sealed
from queryable_state.server.storage.store import NOTHING_COMMITTED, Token
from queryable_state.wire.errors import (
    InvalidRequestError,
    Reason,
    RetryLaterError,
    SupersededError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from queryable_state.server.storage.base import StateBase
    from queryable_state.server.storage.overlay import Overlay


class Versions:
    """The overlays of a store by version, and the operator states beneath them.

    The lock is held for a few assignments only. Readers never lock: they take
    `committed_readers` or `staged_readers`, which never change.
    """

    def __init__(self, base: StateBase, committed_version: int) -> None:
        if committed_version < NOTHING_COMMITTED:
            raise InvalidRequestError(
                f"a store cannot start at version {committed_version}: "
                f"{NOTHING_COMMITTED} means that nothing is committed"
            )
        self.base_version = self.committed_version = committed_version
        self.sealed: tuple[Sealed, ...] = ()  # committed, newest first
        self.staged: Sealed | None = None
        self._base = base
        self._lock = Lock()
        self._operator_states: Mapping[int, tuple[bytes, ...]] = {}
        self.committed_readers: Readers
        """Readers of the committed version."""
        self.staged_readers: Readers
        """Readers of the staged version; of the committed one if nothing is staged."""
        self._publish()

    def seal(self, version: int, overlay: Overlay, token: Token) -> None:
        """Implements `StateStore.seal`."""
        with self._lock:
            if version <= self.committed_version:
                raise SupersededError(
                    f"batch {version} is committed already (the store is at batch "
                    f"{self.committed_version}): stop this attempt",
                    reason=Reason.ALREADY_COMMITTED,
                )
            staged = self.staged
            if staged is not None and token < staged.token:
                raise SupersededError(
                    f"attempt {token} cannot seal batch {version}: the newer attempt "
                    f"{staged.token} has sealed batch {staged.version}: stop this attempt",
                    reason=Reason.STALE_TOKEN,
                )
            if staged is not None and version > staged.version:
                raise RetryLaterError(
                    f"batch {version} cannot be sealed while batch {staged.version} is sealed and "
                    "not committed: commit or discard that one first",
                    reason=Reason.BEHIND,
                )
            self.staged = Sealed(version, overlay, token)
            self._publish()

    def discard_staged(self) -> None:
        """Drops the staged overlay, if any."""
        with self._lock:
            if self.staged is not None:
                self.staged = None
                self._publish()

    def commit(self, version: int) -> Overlay | None:
        """Implements `StateStore.commit`."""
        with self._lock:
            if version <= self.committed_version:
                return None
            staged, visible = self.staged, None
            if staged is not None and staged.version <= version:
                self.staged, visible = None, staged.overlay
                if visible.state_ids:
                    self.sealed = (staged, *self.sealed)
            self.committed_version = version
            self._publish()
            return visible

    def readers_at(self, version: int | None) -> tuple[int, Readers]:
        """The version (the committed one for None) and its readers over the current base."""
        with self._lock:
            sealed, staged, committed = self.sealed, self.staged, self.committed_version
            pinned = committed if version is None else version
            if pinned < self.base_version:
                raise SupersededError(
                    f"version {pinned} is compacted: the oldest readable version is "
                    f"{self.base_version}"
                )
            if pinned > committed:
                if staged is None or staged.version != pinned:
                    raise RetryLaterError(
                        f"version {pinned} is not committed yet: the store is at version "
                        f"{committed}",
                        reason=Reason.BEHIND,
                    )
                sealed = (staged, *sealed)
            visible = tuple(each for each in sealed if each.version <= pinned)
            return pinned, Readers(self._base, visible, self._operator_states)

    def oldest(self, up_to: int) -> Sealed | None:
        """The next overlay to compact: the oldest committed one; None if it is above `up_to`."""
        sealed = self.sealed
        return sealed[-1] if sealed and sealed[-1].version <= up_to else None

    def compacted(self, overlay: Overlay) -> None:
        """Removes the oldest overlay from the stack; the base contains it now."""
        with self._lock:
            self.sealed = self.sealed[:-1]
            self._operator_states = {**self._operator_states, **overlay.operator_states}
            self._publish()

    def skip_empty(self, up_to: int) -> None:
        """Moves the base version past versions without an overlay."""
        with self._lock:
            newest_skipped = min(up_to, self.committed_version)
            if not self.sealed or self.sealed[-1].version > newest_skipped:
                self.base_version = max(self.base_version, newest_skipped)

    def loaded(self, version: int, operator_states: Mapping[int, tuple[bytes, ...]]) -> None:
        """Sets the version of the base, which has no overlay over it."""
        with self._lock:
            self.base_version = self.committed_version = version
            self._operator_states = {**self._operator_states, **operator_states}
            self._publish()

    def close(self) -> None:
        """Drops every overlay; every later read raises `RetryLaterError`."""
        with self._lock:
            self.sealed, self.staged, self._operator_states = (), None, {}
            self.committed_readers = self.staged_readers = ClosedReaders(self._base, (), {})

    def _publish(self) -> None:
        """Replaces the readers after a change; the caller holds the lock."""
        self.committed_readers = Readers(self._base, self.sealed, self._operator_states)
        self.staged_readers = (
            self.committed_readers
            if self.staged is None
            else Readers(self._base, (self.staged, *self.sealed), self._operator_states)
        )
