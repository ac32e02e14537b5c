"""One stateful operator: its subtasks, and who owns each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet


@dataclass(frozen=True, kw_only=True)
class OperatorLayout:
    """A stateful operator of a run, as far as it is known before a task of it runs."""

    uid: str
    parallelism: int
    max_parallelism: int
    sources: tuple[int, ...] = ()
    """Positions, in the engine's offsets, of the sources it reads; empty: any."""


@dataclass(kw_only=True)
class Ownership:
    """One subtask's owner."""

    server_id: str = ""
    """Empty: none."""
    assigned_version: int = 0
    """Placement version since which it is this owner's."""
    opened: bool = False
    """Whether this owner, since it was assigned, has opened its store."""
    restoring: bool = False
    """Whether this owner was told what to load, and has not opened its store since: it may be
    reading files of the job's root."""
    opened_batch: int = -1
    """Batch at the newest opening by any owner; -1: never opened."""
    complete_since: int = 0
    """First batch since which the state of the newest opening is complete; 0: all."""
    staged_files: frozenset[str] = frozenset()
    """Changelogs of `opened_batch` its owner was told to load, relative to the job's root."""
    unsealed_batch: int = -1
    """Batch before which an owner opened an empty store, though another store may have sealed it:
    unless this owner seals it too, its records are lost. -1: there is none."""


@dataclass(kw_only=True)
class Operator:
    """The subtasks of one stateful operator, at one parallelism.

    Owners change by its methods alone, which also keep what is asked for by server: every lease
    and every commit asks, and must not look at each subtask of a thousand servers.
    """

    query_id: bytes
    uid: str
    parallelism: int
    max_parallelism: int
    run_id: bytes
    """The run that set the parallelism."""
    declared_version: int = 0
    """Placement version at which it was declared."""
    before: Operator | None = None
    """The operator at its parallelism before, until a subtask of this one is opened."""
    complete_since: int | None = None
    """Of a subtask never opened; None: no subtask was opened yet."""
    over_quota_since_ms: int | None = None
    subtasks: dict[int, Ownership] = field(default_factory=dict)
    _owned: dict[str, set[int]] = field(default_factory=dict)
    """The subtasks of each server that owns any."""
    _opened: dict[str, int] = field(default_factory=dict)
    """How many of them it has opened; none: not in it."""

    def owned_by(self, server_id: str) -> AbstractSet[int]:
        """The subtasks of a server, opened or not."""
        return self._owned.get(server_id, frozenset())

    @property
    def holders(self) -> AbstractSet[str]:
        """The servers that own and opened subtasks."""
        return self._opened.keys()

    def assign(self, index: int, server_id: str) -> Ownership:
        """Makes a server the owner of a subtask, which it has not opened."""
        ownership = self.subtasks.setdefault(index, Ownership())
        self.close(index)
        ownership.restoring = False
        if ownership.server_id:
            self._release(ownership.server_id, index)
        ownership.server_id = server_id
        self._owned.setdefault(server_id, set()).add(index)
        return ownership

    def open(self, index: int) -> None:
        """The owner has opened its store."""
        ownership = self.subtasks[index]
        if not ownership.opened:
            ownership.opened = True
            self._opened[ownership.server_id] = self._opened.get(ownership.server_id, 0) + 1

    def close(self, index: int) -> None:
        """What the owner had opened is worth nothing; it stays the owner."""
        ownership = self.subtasks[index]
        if ownership.opened:
            ownership.opened = False
            left = self._opened.pop(ownership.server_id) - 1
            if left:
                self._opened[ownership.server_id] = left

    def free(self, server_id: str) -> int:
        """Takes all subtasks from a server; how many it had."""
        indexes = sorted(self.owned_by(server_id))
        for index in indexes:
            self.close(index)
            self.subtasks[index].server_id = ""
            self._release(server_id, index)
        return len(indexes)

    def _release(self, server_id: str, index: int) -> None:
        owned = self._owned[server_id]
        owned.discard(index)
        if not owned:
            del self._owned[server_id]

    @property
    def first_opened(self) -> int | None:
        """Smallest batch at which a subtask was opened; None: none was."""
        batches = [s.opened_batch for s in self.subtasks.values() if s.opened_batch >= 0]
        return min(batches, default=None)

    @property
    def layout(self) -> OperatorLayout:
        """The operator as a run declares it, reading any source."""
        return OperatorLayout(
            uid=self.uid, parallelism=self.parallelism, max_parallelism=self.max_parallelism
        )

    @property
    def is_unused(self) -> bool:
        """Whether no subtask was ever opened, at this or a former parallelism."""
        return self.first_opened is None and self.before is None


@dataclass(frozen=True)
class Opening:
    """What an owner is told that opens a subtask."""

    complete_since: int
    lost: bool
    """Whether this opening found that state before `complete_since` is gone."""
