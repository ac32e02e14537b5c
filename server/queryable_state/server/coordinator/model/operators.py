"""One stateful operator: its subtasks and their owners."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from queryable_state.server.coordinator.model.lifecycles import (
    OWNERSHIP,
    OwnershipEvent,
    OwnershipState,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet


@dataclass(frozen=True, kw_only=True)
class OperatorLayout:
    """A stateful operator as Spark's plan shows it, before its first task runs."""

    uid: str
    parallelism: int
    max_parallelism: int
    sources: tuple[int, ...] = ()
    """Positions in Spark's offsets of the sources it reads; empty: any."""


@dataclass(kw_only=True)
class Ownership:
    """Owner and store of one subtask. Its methods apply `OWNERSHIP`, the table of transitions.

    `Operator` calls them, because it also counts subtasks by server.
    """

    index: int
    """The subtask's index."""
    state: OwnershipState = OwnershipState.UNOWNED
    server_id: str = ""
    """Empty: unowned."""
    assigned_version: int = 0
    """Placement version since which this owner has it."""
    opened_batch: int = -1
    """Batch of the newest opening by any owner; -1: never opened."""
    complete_since: int = 0
    """First batch since which the state of the newest opening is complete; 0: all."""
    staged_files: frozenset[str] = frozenset()
    """Changelogs of `opened_batch` in the newest restore plan, relative to the job's root."""
    unsealed_batch: int = -1
    """Batch for which the open store was created empty although a lost store may have sealed it.

    The batch's records are lost unless this owner seals it, too. -1: none.
    """

    @property
    def opened(self) -> bool:
        """Whether the owner has an open store."""
        return self.state in {OwnershipState.OPEN, OwnershipState.REOPENING}

    @property
    def restoring(self) -> bool:
        """Whether the owner may be reading files of the job's root."""
        return self.state in {OwnershipState.RESTORING, OwnershipState.REOPENING}

    def assign(self, server_id: str, version: int) -> None:
        """Gives the subtask to a server, which has no open store."""
        self._apply(OwnershipEvent.ASSIGN)
        self.server_id, self.assigned_version = server_id, version

    def plan_restore(self, staged_files: frozenset[str]) -> None:
        """Records that the owner gets a restore plan with these staged changelogs."""
        self._apply(OwnershipEvent.PLAN_RESTORE)
        self.staged_files = staged_files

    def end_restore(self) -> None:
        """Records that the owner reads no files of the root any more."""
        self._apply(OwnershipEvent.END_RESTORE)

    def open(self, batch_id: int, *, complete_since: int, unsealed_batch: int = -1) -> None:
        """Records that the owner has opened a store for a batch."""
        self._apply(OwnershipEvent.OPEN)
        self.opened_batch, self.complete_since = batch_id, complete_since
        self.unsealed_batch = unsealed_batch

    def close(self) -> None:
        """Invalidates the owner's store."""
        self._apply(OwnershipEvent.CLOSE)

    def release(self) -> None:
        """Takes the subtask from its owner."""
        self._apply(OwnershipEvent.RELEASE)
        self.server_id = ""

    def _apply(self, event: OwnershipEvent) -> None:
        self.state = OWNERSHIP.after(
            self.state, event, f"{self.index} of server {self.server_id!r}"
        )


@dataclass(kw_only=True)
class Operator:
    """The subtasks of one stateful operator, at one parallelism.

    Its methods alone change owners and open stores. They also index the subtasks by server:
    every lease and every commit asks by server, and must not scan all subtasks.
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
    """The operator at its former parallelism, until a subtask of this one is opened."""
    complete_since: int | None = None
    """First complete batch of a subtask that was never opened; None: none was opened yet."""
    over_quota_since_ms: int | None = None
    subtasks: dict[int, Ownership] = field(default_factory=dict)
    _owned: dict[str, set[int]] = field(default_factory=dict)
    """The subtasks of each server that owns any."""
    _opened: dict[str, int] = field(default_factory=dict)
    """Number of open subtasks of each server that has any."""

    def owned_by(self, server_id: str) -> AbstractSet[int]:
        """The subtasks of a server, opened or not."""
        return self._owned.get(server_id, frozenset())

    @property
    def former(self) -> Iterator[Operator]:
        """The operator at its former parallelisms, newest first, while servers may hold them."""
        before = self.before
        while before is not None:
            yield before
            before = before.before

    @property
    def holders(self) -> AbstractSet[str]:
        """The servers that own and opened subtasks."""
        return self._opened.keys()

    def assign(self, index: int, server_id: str, version: int) -> None:
        """Makes a server the owner of a subtask, at a placement version."""
        ownership = self.subtasks.setdefault(index, Ownership(index=index))
        before, opened = ownership.server_id, ownership.opened
        ownership.assign(server_id, version)
        self._forget(before, index, opened=opened)
        self._owned.setdefault(server_id, set()).add(index)

    def open(
        self, index: int, batch_id: int, *, complete_since: int, unsealed_batch: int = -1
    ) -> None:
        """Records that the owner has opened its store for a batch."""
        ownership = self.subtasks[index]
        opened = ownership.opened
        ownership.open(batch_id, complete_since=complete_since, unsealed_batch=unsealed_batch)
        if not opened:
            self._opened[ownership.server_id] = self._opened.get(ownership.server_id, 0) + 1

    def close(self, index: int) -> None:
        """Invalidates the open store of a subtask; its owner stays the owner."""
        ownership = self.subtasks[index]
        ownership.close()
        self._count_closed(ownership.server_id)

    def free(self, server_id: str) -> int:
        """Takes all subtasks from a server; returns how many it owned."""
        indexes = sorted(self.owned_by(server_id))
        for index in indexes:
            ownership = self.subtasks[index]
            opened = ownership.opened
            ownership.release()
            self._forget(server_id, index, opened=opened)
        return len(indexes)

    def _forget(self, server_id: str, index: int, *, opened: bool) -> None:
        if opened:
            self._count_closed(server_id)
        if server_id:
            owned = self._owned[server_id]
            owned.discard(index)
            if not owned:
                del self._owned[server_id]

    def _count_closed(self, server_id: str) -> None:
        left = self._opened.pop(server_id) - 1
        if left:
            self._opened[server_id] = left

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
    """The coordinator's answer to an owner that opens a subtask."""

    complete_since: int
    lost: bool
    """Whether the state before `complete_since` is lost."""
