"""One stateful operator: its subtasks, and who owns each."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class OperatorLayout:
    """A stateful operator of a run, as far as it is known before a task of it runs."""

    uid: str
    parallelism: int
    max_parallelism: int


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
    """The subtasks of one stateful operator, at one parallelism."""

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

    @property
    def first_opened(self) -> int | None:
        """Smallest batch at which a subtask was opened; None: none was."""
        batches = [s.opened_batch for s in self.subtasks.values() if s.opened_batch >= 0]
        return min(batches, default=None)

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
