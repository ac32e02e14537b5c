"""The coordinator's in-memory state behind one lock, and the invariants across its tables."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from queryable_state.server.coordinator.model.commits import Commit, Commits
from queryable_state.server.coordinator.model.jobs import Job, JobRegistry
from queryable_state.server.coordinator.model.placement import Placement
from queryable_state.server.coordinator.model.registrations import RegistrationTable
from queryable_state.server.coordinator.model.servers import ServerTable
from queryable_state.wire.errors import (
    JobError,
    PlacementError,
    Reason,
    RetryLaterError,
    SupersededError,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from queryable_state.internal.v1 import backend_pb2
    from queryable_state.server.coordinator.model.engine import QueryInfo
    from queryable_state.server.coordinator.model.operators import Operator
    from queryable_state.server.settings import CoordinatorSettings

# The watcher advances the clock far more often. A longer gap means that this process was suspended,
# and that no server could renew its lease.
_STALL_MS = 1_000
_CHECK_MS = 50


class CoordinatorState:
    """The tables of the coordinator, and the operations that span them.

    Callers read and write the tables inside `transaction` only, and neither do I/O nor call the
    stream engine there. The predicates of `wait_for` run inside a transaction, too.
    `clock_ms` is monotonic, `wall_ms` counts since the epoch, both in milliseconds.
    """

    def __init__(
        self,
        settings: CoordinatorSettings,
        *,
        clock_ms: Callable[[], int],
        wall_ms: Callable[[], int],
        first_state_id: int | None = None,
    ) -> None:
        # Reentrant: a transaction may be nested in another.
        self._lock = threading.Condition()
        self._transaction = _Transaction(self._lock, self._advance_clock)
        self.departures = 0
        """Number of servers that have deregistered; waiters are notified of each."""
        self.wall_ms = wall_ms
        self.jobs = JobRegistry()
        self.states = RegistrationTable(first_state_id=first_state_id)
        self.servers = ServerTable(lease_ms=settings.lease_ms, margin_ms=settings.lease_margin_ms)
        # Placement versions of a driver must be above those of an older one at its address.
        self.placement = Placement(self.servers, version=wall_ms())
        self.commits = Commits()
        # What the stable version of each query was worked out of.
        self._stable_of: dict[bytes, tuple[int, int]] = {}
        self._clock_ms = clock_ms
        self._advanced_ms = clock_ms()
        self.stalls = 0
        """How often this process stood still."""
        self.checked_stalls = 0
        """The stalls after which the roots were checked for newer epochs."""
        self.stalled = threading.Event()
        """Set at each stall."""

    def transaction(self) -> AbstractContextManager[int]:
        """Holds the lock, with all leases brought up to date; gives the monotonic time in ms."""
        return self._transaction

    def wait_for(self, predicate: Callable[[], bool], timeout_s: float) -> bool:
        """Waits until the predicate holds; False if it does not within the timeout.

        Evaluates the predicate at once, and again after each `notify_waiters`. Releases the lock
        while it waits, also when it is called inside a transaction.
        """

        def holds() -> bool:
            self._advance_clock()
            return predicate()

        with self._lock:
            return self._lock.wait_for(holds, timeout_s)

    def notify_waiters(self) -> None:
        """Wakes all calls of `wait_for` when the current transaction ends."""
        self._lock.notify_all()

    def _advance_clock(self) -> int:
        """Brings leases up to the clock; returns the time.

        A suspension of this process expires no lease: renewals of that time are still unread.
        """
        now = self._clock_ms()
        gap = now - self._advanced_ms
        self._advanced_ms = now
        if gap > _STALL_MS:
            self.servers.forgive(gap)
            self.stalls += 1
            self.stalled.set()
        self.sweep(now)
        return now

    def sweep(self, now_ms: int) -> None:
        """Marks servers that lapsed or renewed after a lapse, which changes the placement."""
        if self.servers.sweep(now_ms):
            self.placement.version += 1

    def enter(self, query_id: bytes, info: QueryInfo) -> Job:
        """The job of a query the engine knows; SupersededError (FENCED) where its run is fenced."""
        job = self.jobs.enter(query_id, info, self.wall_ms())
        job.run.check_not_fenced()
        return job

    def revoke(self, job: Job) -> dict[str, str]:
        """Takes a fenced job's state from all servers; returns them, HOST:PORT by server id."""
        holders = self.holders(job.query_id)
        self.placement.drop_query(job.query_id)
        self.notify_waiters()
        return holders

    def check_no_stall(self) -> None:
        """RetryLaterError after a stall, until the roots are checked for newer epochs.

        Another driver may have taken over a job while this process stood still: no lease is
        renewed before that is known.
        """
        if self.checked_stalls != self.stalls:
            raise RetryLaterError(
                "the driver stood still, and has not yet looked whether another driver has taken "
                "over its jobs",
                retry_after_ms=_CHECK_MS,
            )

    def operator_of(self, subtask: backend_pb2.Subtask, server_id: str) -> Operator:
        """The operator of a subtask that a server opens; PlacementError where nobody owns it."""
        operator = self.placement.operator(subtask.query_id, subtask.operator_uid)
        if operator is None or operator.parallelism != subtask.parallelism:
            raise PlacementError(
                f"server {server_id} opens subtask {subtask.index} of {subtask.parallelism} of "
                f"operator {subtask.operator_uid!r}, which has no owner: ask for the owner first",
                placement_version=self.placement.version,
            )
        return operator

    def contact(self, job: Job, batch_id: int) -> int:
        """A batch of the job makes contact; answers the first one that did.

        Refuses a batch that is committed: ALREADY_COMMITTED to a straggler,
        INCOMPATIBLE_STATE to a run that begins in the past of the state.
        """
        if job.first_batch is None:
            job.first_batch = batch_id
            time_ms = self.wall_ms() if batch_id else 0
            self.commits.enter(job.query_id, Commit(batch_id - 1, time_ms, 0))
        committed = self.commits.version(job.query_id)
        if batch_id > committed:
            return job.first_batch
        if job.run.first_batch is not None:
            raise SupersededError(
                f"job {job.label}: batch {batch_id} is committed, as all up to {committed}",
                reason=Reason.ALREADY_COMMITTED,
            )
        raise JobError(
            f"job {job.label} begins again at batch {batch_id}, and its state is at {committed}: "
            "its checkpoint was set back, which the state cannot follow; start it as a new query, "
            "from a checkpoint location of its own"
        )

    def advance_commit(self, job: Job, version: int) -> bool:
        """Every batch up to `version` is committed; whether that is news."""
        clocks = job.run.clocks.get(version)
        watermark_ms = clocks.watermark_ms if clocks else 0
        return self.commits.advance(job.query_id, Commit(version, self.wall_ms(), watermark_ms))

    def holders(self, query_id: bytes) -> dict[str, str]:
        """The servers to tell of commits: HOST:PORT of `StateBackend` by id."""
        servers = (self.servers.find(holder) for holder in self.placement.holders(query_id))
        return {s.server_id: s.backend_address for s in servers if s and not s.lapsed}

    def refresh_stable(self, query_id: bytes) -> None:
        """Moves the stable version of a query up to what all its holders confirmed."""
        # Every heartbeat asks, and most bring no news.
        of = (self.placement.version, self.commits.changes)
        if self._stable_of.get(query_id) != of:
            self._stable_of[query_id] = of
            self.commits.refresh_stable(query_id, self.holders(query_id))

    def forget_server(self, server_id: str) -> None:
        """Frees what a server that is gone did own."""
        self.placement.free(server_id)
        self.commits.forget_server(server_id)
        self.notify_waiters()

    def restart(self, job: Job) -> None:
        """Forgets what servers hold and have committed of a job that goes on by another root.

        Servers learn by their leases to drop what they hold, and load it anew.
        """
        self.placement.drop_query(job.query_id)
        self.states.drop(job.query_id)
        self.commits.drop(job.query_id)
        self._stable_of.pop(job.query_id, None)
        job.first_batch = None
        self.notify_waiters()

    def drop(self, job: Job) -> dict[str, str]:
        """Forgets a job; answers the servers to tell, HOST:PORT of `StateBackend` by id."""
        holders = self.holders(job.query_id)
        self.placement.drop_query(job.query_id)
        self.states.drop(job.query_id)
        self.commits.drop(job.query_id)
        self._stable_of.pop(job.query_id, None)
        self.jobs.drop(job.query_id)
        self.notify_waiters()
        return holders


class _Transaction:
    """One hold of the lock. It keeps nothing between calls, so all threads share one."""

    def __init__(self, lock: threading.Condition, advance_clock: Callable[[], int]) -> None:
        self._lock = lock
        self._advance_clock = advance_clock

    def __enter__(self) -> int:
        self._lock.acquire()
        try:
            return self._advance_clock()
        except BaseException:
            self._lock.release()
            raise

    def __exit__(self, *exc_info: object) -> None:
        self._lock.release()
