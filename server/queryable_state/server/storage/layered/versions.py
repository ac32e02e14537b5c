"""Which versions a store has: the pointers that a commit flips and a reader takes."""

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
    from queryable_state.server.storage.layered.overlay import Overlay


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
        """What the committed version is read with."""
        self.staged_readers: Readers
        """The same with what is staged."""
        self._publish()

    def seal(self, version: int, overlay: Overlay, token: Token) -> None:
        with self._lock:
            if version <= self.committed_version:
                raise SupersededError(
                    f"batch {version} is committed (the store is at {self.committed_version}): "
                    "its result stands, stop this attempt",
                    reason=Reason.ALREADY_COMMITTED,
                )
            staged = self.staged
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
            self.staged = Sealed(version, overlay, token)
            self._publish()

    def discard_staged(self) -> None:
        with self._lock:
            if self.staged is not None:
                self.staged = None
                self._publish()

    def commit(self, version: int) -> Overlay | None:
        """Returns what became visible by it."""
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
        """What a version (None: the committed one) is read with, over the base of this moment."""
        with self._lock:
            sealed, staged, committed = self.sealed, self.staged, self.committed_version
            wanted = committed if version is None else version
            if wanted < self.base_version:
                raise SupersededError(
                    f"version {wanted} is folded away: the oldest one kept is {self.base_version}"
                )
            if wanted > committed:
                if staged is None or staged.version != wanted:
                    raise RetryLaterError(
                        f"version {wanted} is not there yet: the store is at {committed}",
                        reason=Reason.BEHIND,
                    )
                sealed = (staged, *sealed)
            kept = tuple(each for each in sealed if each.version <= wanted)
            return wanted, Readers(self._base, kept, self._operator_states)

    def oldest(self, up_to: int) -> Sealed | None:
        """The overlay to be folded next, if it is committed and not above `up_to`."""
        sealed = self.sealed
        return sealed[-1] if sealed and sealed[-1].version <= up_to else None

    def compacted(self, overlay: Overlay) -> None:
        """The base answers for the oldest overlay from here on."""
        with self._lock:
            self.sealed = self.sealed[:-1]
            self._operator_states = {**self._operator_states, **overlay.operator_states}
            self._publish()

    def pass_empty(self, up_to: int) -> None:
        """Move the base version over versions that have no overlay to fold."""
        with self._lock:
            newest_passed = min(up_to, self.committed_version)
            if not self.sealed or self.sealed[-1].version > newest_passed:
                self.base_version = max(self.base_version, newest_passed)

    def loaded(self, version: int, operator_states: Mapping[int, tuple[bytes, ...]]) -> None:
        """The base, which has no overlay over it, is at `version`."""
        with self._lock:
            self.base_version = self.committed_version = version
            self._operator_states = {**self._operator_states, **operator_states}
            self._publish()

    def close(self) -> None:
        """Forget every overlay; every read is refused from here on."""
        with self._lock:
            self.sealed, self.staged, self._operator_states = (), None, {}
            self.committed_readers = self.staged_readers = ClosedReaders(self._base, (), {})

    def _publish(self) -> None:
        """Make the pointers visible to readers; the lock is held."""
        self.committed_readers = Readers(self._base, self.sealed, self._operator_states)
        self.staged_readers = (
            self.committed_readers
            if self.staged is None
            else Readers(self._base, (self.staged, *self.sealed), self._operator_states)
        )
