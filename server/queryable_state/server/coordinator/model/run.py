"""One run of a job: its phase, and the batches it has begun."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from queryable_state.server.coordinator.model.lifecycles import (
    RUN,
    IllegalTransitionError,
    RunEvent,
    RunPhase,
)
from queryable_state.wire.errors import Reason, SupersededError

if TYPE_CHECKING:
    from queryable_state.server.coordinator.model.engine import BatchClocks
    from queryable_state.server.coordinator.model.operators import OperatorLayout
    from queryable_state.wire.errors import QueryableStateError

# Batches whose clocks are kept: operators deeper than this keep as many more.
_CLOCKS_KEPT = 8


@dataclass(frozen=True, kw_only=True)
class RunStart:
    """What is known of a run before its first task runs."""

    config_id: str
    """The configuration of its job."""
    operators: tuple[OperatorLayout, ...]
    """Its stateful operators; each batch runs all of them."""
    after: int
    """The newest batch committed before the run; -1: none."""


class ReportedTimers(NamedTuple):
    """The earliest pending timers of a subtask after a batch."""

    batch_id: int
    processing_time_ms: int | None
    """Milliseconds since the epoch; None: none is pending."""
    event_time_ms: int | None


@dataclass(kw_only=True)
class Run:
    """The newest run of a job. Its methods apply `RUN`, the table of legal transitions."""

    run_id: bytes
    phase: RunPhase = RunPhase.STARTED
    start: RunStart | None = None
    """What Spark's plan says of the run; None: not reported."""
    first_batch: int | None = None
    """The first batch the run has begun; None: no batch yet."""
    begun: int = -1
    """The newest batch the run has begun; -1: no batch yet."""
    begun_at_ms: int = 0
    """Milliseconds since the epoch at which it began that batch."""
    refusal: QueryableStateError | None = None
    """Why the run was refused; None: it was not."""
    fencing: str = ""
    """Why the run was fenced; empty: it was not."""
    restoring: bool = False
    """Whether the coordinator is opening the job's stored state without a batch.

    Independent of the phase, except that a fenced run restores nothing: batches may begin
    meanwhile, and a refusal does not end the restore.
    """
    clocks: dict[int, BatchClocks] = field(default_factory=dict)
    """Clocks of the newest batches, by batch."""
    timers: dict[tuple[str, int], ReportedTimers] = field(default_factory=dict)
    """The last report of each subtask that has timers, by operator uid and index."""

    def begin_batch(self, batch_id: int) -> None:
        """Records that a task of the run has begun a batch."""
        self._apply(RunEvent.BEGIN_BATCH)
        if self.first_batch is None:
            self.first_batch = batch_id
        self.begun = max(self.begun, batch_id)

    def refuse(self, error: QueryableStateError) -> bool:
        """Lets the run begin and commit no further batch; False if it was refused before."""
        if self.refusal is not None:
            return False
        self._apply(RunEvent.REFUSE)
        self.refusal = error
        return True

    def fence(self, why: str) -> bool:
        """Gives the job up to another driver; False if the run was fenced before."""
        self._apply(RunEvent.FENCE)
        is_first = not self.fencing
        self.fencing = why
        self.restoring = False
        return is_first

    def start_restore(self) -> None:
        """Records that the coordinator opens the job's stored state without a batch."""
        if self.phase is RunPhase.FENCED:
            raise IllegalTransitionError(f"fenced run {self.run_id.hex()} restores nothing")
        self.restoring = True

    def end_restore(self) -> None:
        """Records that the stored state is open, or left to the next batch."""
        self.restoring = False

    def check_not_fenced(self) -> None:
        """Raises SupersededError (FENCED) if another driver has taken over the job."""
        if self.fencing:
            raise SupersededError(self.fencing, reason=Reason.FENCED)

    def check_not_refused(self) -> None:
        """Raises the error the run was refused with, if it was."""
        if self.refusal is not None:
            raise self.refusal.with_traceback(None)

    def keep_clocks(self, batch_id: int, clocks: BatchClocks, depth: int) -> None:
        """Keeps the clocks of a batch, and drops those no operator can ask for again."""
        self.clocks[batch_id] = clocks
        oldest = max(self.clocks) - max(_CLOCKS_KEPT, depth + 2)
        for batch in [batch for batch in self.clocks if batch < oldest]:
            del self.clocks[batch]

    def _apply(self, event: RunEvent) -> None:
        self.phase = RUN.after(self.phase, event, self.run_id.hex())
