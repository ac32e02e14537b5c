"""The coordinator's in-memory state behind one lock, and the invariants across its tables."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from queryable_state.server.coordinator.model.commits import Commit, Commits
from queryable_state.server.coordinator.model.departed.departures import Departures
from queryable_state.server.coordinator.model.jobs import Job, JobRegistry
from queryable_state.server.coordinator.model.placement import Placement
from queryable_state.server.coordinator.model.registrations import RegistrationTable
from queryable_state.server.coordinator.model.servers import ServerTable
from queryable_state.v1 import status_pb2
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
    from queryable_state.server.coordinator.model.servers import Server
    from queryable_state.server.coordinator.settings import CoordinatorSettings

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
        # Placement versions must exceed those of an earlier driver at the same address.
        self.placement = Placement(self.servers, version=wall_ms())
        self.departed = Departures(self.placement)
        self.commits = Commits()
        # Placement version and `Commits.changes` at the last `advance_min_acked` of each query.
        self._min_acked_inputs: dict[bytes, tuple[int, int]] = {}
        self._clock_ms = clock_ms
        self._advanced_ms = clock_ms()
        self.stalls = 0
        """Number of suspensions of this process."""
        self.checked_stalls = 0
        """The value of `stalls` at the last check of all roots for newer epochs."""
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
            for server in self.servers:
                if server.lapsed:
                    self.record_departure(server, status_pb2.ServerStatus.LOST, now_ms)
                else:
                    self.departed.returned(server)

    def record_departure(
        self, server: Server, how: status_pb2.ServerStatus.Lease.ValueType, now_ms: int
    ) -> None:
        """Records that a server is lost or has left, before its subtasks are freed."""
        self.departed.add(server, how, self.wall_ms(), now_ms)

    def enter(self, query_id: bytes, info: QueryInfo) -> Job:
        """The job of a query that Spark knows; SupersededError (FENCED) if its run is fenced."""
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
        """Raises RetryLaterError after a stall, until the roots are checked for newer epochs.

        Another driver may have taken over a job while this process was suspended, so no lease is
        renewed before that check.
        """
        if self.checked_stalls != self.stalls:
            raise RetryLaterError(
                "the driver was suspended, and has not checked yet whether another driver has "
                "taken over its jobs",
                retry_after_ms=_CHECK_MS,
            )

    def operator_of(self, subtask: backend_pb2.Subtask, server_id: str) -> Operator:
        """The operator of a subtask that a server opens; PlacementError if it has no owner."""
        operator = self.placement.operator(subtask.query_id, subtask.operator_uid)
        if operator is None or operator.parallelism != subtask.parallelism:
            raise PlacementError(
                f"server {server_id} opens subtask {subtask.index} of {subtask.parallelism} of "
                f"operator {subtask.operator_uid!r}, which has no owner: ask for the owner first",
                placement_version=self.placement.version,
            )
        return operator

    def contact(self, job: Job, batch_id: int) -> int:
        """Records the first batch of the job that this driver hears of, and returns it.

        Refuses a committed batch: ALREADY_COMMITTED to a late task, INCOMPATIBLE_STATE to a run
        that begins before the version of the state.
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
        """Records that all batches up to `version` are committed; True if the version advanced."""
        clocks = job.run.clocks.get(version)
        watermark_ms = clocks.watermark_ms if clocks else 0
        return self.commits.advance(job.query_id, Commit(version, self.wall_ms(), watermark_ms))

    def holders(self, query_id: bytes) -> dict[str, str]:
        """The live servers that hold state of the query: HOST:PORT of `StateBackend` by id."""
        servers = (self.servers.find(holder) for holder in self.placement.holders(query_id))
        return {s.server_id: s.backend_address for s in servers if s and not s.lapsed}

    def advance_min_acked(self, query_id: bytes) -> None:
        """Moves the query's `min_acked` up to the newest version all its holders have acked."""
        # Called by every heartbeat, and most have nothing new.
        inputs = (self.placement.version, self.commits.changes)
        if self._min_acked_inputs.get(query_id) != inputs:
            self._min_acked_inputs[query_id] = inputs
            self.commits.advance_min_acked(query_id, self.holders(query_id))

    def forget_server(self, server_id: str) -> None:
        """Frees the subtasks of a server that has left."""
        self.placement.free(server_id)
        self.commits.forget_server(server_id)
        self.notify_waiters()

    def restart(self, job: Job) -> None:
        """Forgets the placement and commits of a job that continues from another root.

        Servers drop their stores with their next leases, and load them again from that root.
        """
        self.placement.drop_query(job.query_id)
        self.states.drop(job.query_id)
        self.commits.drop(job.query_id)
        self._min_acked_inputs.pop(job.query_id, None)
        job.first_batch = None
        self.notify_waiters()

    def drop(self, job: Job) -> dict[str, str]:
        """Forgets a job; returns its holders, HOST:PORT of `StateBackend` by id."""
        holders = self.holders(job.query_id)
        self.placement.drop_query(job.query_id)
        self.states.drop(job.query_id)
        self.commits.drop(job.query_id)
        self._min_acked_inputs.pop(job.query_id, None)
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
