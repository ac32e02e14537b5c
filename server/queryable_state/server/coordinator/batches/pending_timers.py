"""The earliest pending timers of a query: when its next batch is wanted without input."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.coordinator.model.run import ReportedTimers
from queryable_state.v1 import registration_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from queryable_state.internal.v1 import backend_pb2
    from queryable_state.server.coordinator.model.commits import CommitRound
    from queryable_state.server.coordinator.model.jobs import Job
    from queryable_state.server.coordinator.model.state import CoordinatorState

_AT_ONCE_MS = 0


class PendingTimers:
    """The next timers of each subtask, as its last committed seal reports them. Thread-safe.

    A subtask reports in every batch that it runs, and keeps its last value otherwise. A subtask
    whose timers are not known counts as one with a due timer, so that a batch runs, in which it
    reports: after the start of a run, and after the loss of a report with its server.
    """

    def __init__(self, state: CoordinatorState) -> None:
        self._state = state

    def report(
        self,
        commit_round: CommitRound,
        seals: Mapping[str, Sequence[backend_pb2.SealedSubtask]],
    ) -> None:
        """Takes the reports of a committed batch, by server that answered."""
        state = self._state
        with state.transaction():
            job = state.jobs.find(commit_round.query_id)
            if job is None or job.run.run_id != commit_round.run_id:
                return
            timers = job.run.timers
            for uid, parallelism in self._operators(job):
                operator = state.placement.operator(job.query_id, uid)
                for index in range(parallelism):
                    owner = operator.subtasks.get(index) if operator else None
                    if owner is None or owner.server_id not in seals:
                        timers.pop((uid, index), None)
            for seal in _with_timers(seals.values()):
                known = timers.get((seal.operator_uid, seal.subtask))
                if known is None or known.batch_id <= seal.batch_id:
                    timers[seal.operator_uid, seal.subtask] = _reported(seal)

    def next(self, query_id: bytes) -> tuple[int | None, int | None]:
        """The earliest pending timers of a query: processing time and event time, None: none.

        Milliseconds since the epoch, over all subtasks, after the newest published batch: `settle`
        one first to include it. The processing time is 0, and so due, while the timers of a subtask
        are not known: before the first batch of a run, and if a server did not report. Both are
        None for an unknown query, and before the operators of a driver's first run have begun:
        every run must start with one batch.
        """
        state = self._state
        with state.transaction():
            job = state.jobs.find(query_id)
            if job is None:
                return None, None
            reported = [
                job.run.timers.get((uid, index), ReportedTimers(-1, _AT_ONCE_MS, None))
                for uid, parallelism in self._operators(job)
                for index in range(parallelism)
            ]
        processing = (each.processing_time_ms for each in reported)
        event = (each.event_time_ms for each in reported)
        return _earliest(processing), _earliest(event)

    def _operators(self, job: Job) -> list[tuple[str, int]]:
        """Uid and parallelism of the operators with timers in the job's newest run."""
        state = self._state
        uids = {
            registered.operator_uid
            for registered in state.states.of_job(job.query_id)
            if registered.kind == registration_pb2.TIMER
        }
        if job.run.start is not None:
            uids &= {operator.uid for operator in job.run.start.operators}
        return [
            (operator.uid, operator.parallelism)
            for operator in state.placement.operators(job.query_id)
            if operator.uid in uids
        ]


def _with_timers(
    seals: Iterable[Sequence[backend_pb2.SealedSubtask]],
) -> Iterator[backend_pb2.SealedSubtask]:
    return (seal for reports in seals for seal in reports if seal.HasField("next_timers"))


def _reported(seal: backend_pb2.SealedSubtask) -> ReportedTimers:
    timers = seal.next_timers
    return ReportedTimers(
        seal.batch_id,
        timers.processing_time_ms if timers.HasField("processing_time_ms") else None,
        timers.event_time_ms if timers.HasField("event_time_ms") else None,
    )


def _earliest(times_ms: Iterable[int | None]) -> int | None:
    return min((time_ms for time_ms in times_ms if time_ms is not None), default=None)
