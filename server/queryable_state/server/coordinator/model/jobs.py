"""Registry of the jobs the coordinator knows, found by id or name."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from queryable_state.server.coordinator.model.run import Run
from queryable_state.server.job_names import NamedJob, job_id_of, job_label, resolved_job
from queryable_state.v1 import registration_pb2
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.server.coordinator.model.engine import QueryInfo

RUNNING = registration_pb2.RUNNING
FINISHED = registration_pb2.FINISHED
FAILED = registration_pb2.FAILED

# Late reports of Spark are recognised for at most this many earlier runs.
_PAST_RUNS = 16


@dataclass(kw_only=True)
class Job:
    """One streaming query with queryable state."""

    query_id: bytes
    name: str
    run: Run
    """The newest run."""
    past_runs: deque[bytes] = field(default_factory=lambda: deque(maxlen=_PAST_RUNS))
    started_at_ms: int
    """Milliseconds since the epoch of the first contact."""
    status: registration_pb2.JobStatus.ValueType = RUNNING
    error: str | None = None
    ended_order: int = 0
    """Sequence number of the job's end: the oldest ends are forgotten first."""
    restarts: int = 0
    """Runs after the first one that this driver has seen."""
    first_batch: int | None = None
    """Batch of the first contact with this driver; earlier batches are unknown to it."""
    partial_batches: int = 0
    """Batches that an operator missed in part or as a whole."""
    non_deterministic_batches: int = 0
    """Subtasks of batches that were retried on different input."""
    pins: int = 0
    """Number of snapshots in progress: an ended job is not forgotten while it has one."""

    @property
    def label(self) -> str:
        """The job as errors and logs name it."""
        return job_label(self.name, self.query_id)

    def enter_run(self, info: QueryInfo) -> None:
        """Takes what Spark reports; a new run replaces the one before.

        Late reports of earlier runs are ignored.
        """
        if info.run_id in self.past_runs:
            return
        self.name = info.name
        if info.run_id != self.run.run_id:
            self.past_runs.append(self.run.run_id)
            self.restarts += 1
            self.run = Run(run_id=info.run_id)


class JobRegistry:
    """Jobs by query id. Not thread-safe."""

    def __init__(self) -> None:
        self._jobs: dict[bytes, Job] = {}
        self._ended = 0

    def __iter__(self) -> Iterator[Job]:
        """Every job, by first contact."""
        return iter(self._jobs.values())

    def find(self, query_id: bytes) -> Job | None:
        """The job of this id, or None."""
        return self._jobs.get(query_id)

    def enter(self, query_id: bytes, info: QueryInfo, now_wall_ms: int) -> Job:
        """The job of a query, added if it is new."""
        job = self._jobs.get(query_id)
        if job is None:
            job = Job(
                query_id=query_id,
                name=info.name,
                run=Run(run_id=info.run_id),
                started_at_ms=now_wall_ms,
            )
            self._jobs[query_id] = job
        job.enter_run(info)
        self.observe(job, info)
        return job

    def observe(self, job: Job, info: QueryInfo | None) -> bool:
        """Updates a job's status from what Spark reports; True if the job ended now."""
        was_running = job.status == RUNNING
        if info is not None and info.run_id in job.past_runs:
            return False
        if info is not None and info.active:
            job.status, job.error = RUNNING, None
        elif info is not None and info.error is not None:
            job.status, job.error = FAILED, info.error
        elif was_running:
            # Spark may report the cause later; a cause that it has reported stays.
            job.status, job.error = FINISHED, None
        ended = was_running and job.status != RUNNING
        if ended:
            self._ended += 1
            job.ended_order = self._ended
        return ended

    def beyond(self, retained: int) -> list[Job]:
        """The ended jobs older than the `retained` newest ends, unless a snapshot pins them."""
        ended = sorted(
            (job for job in self if job.status != RUNNING), key=lambda job: job.ended_order
        )
        return [job for job in ended[: max(0, len(ended) - retained)] if not job.pins]

    def drop(self, query_id: bytes) -> None:
        """Forgets a job."""
        self._jobs.pop(query_id, None)

    def resolve(self, job: str) -> Job:
        """The job of an id, with or without dashes, or of a name; raises `UnknownJobError`.

        Of several jobs with the name: the running one, else the newest.
        """
        query_id = job_id_of(job)
        if query_id is None or query_id not in self._jobs:
            query_id = resolved_job(
                job, (NamedJob(each.query_id, each.name, each.status == RUNNING) for each in self)
            )
        return self._jobs[query_id]


def check_id(value: bytes, what: str) -> bytes:
    """Returns an id of 16 bytes; InvalidRequestError for any other length."""
    if len(value) != 16:
        raise InvalidRequestError(f"{what} has {len(value)} bytes; it is the 16 bytes of a UUID")
    return value
