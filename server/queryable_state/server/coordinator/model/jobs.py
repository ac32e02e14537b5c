"""The jobs the coordinator knows, and how people name them."""

from __future__ import annotations

import uuid
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from queryable_state.v1 import registration_pb2
from queryable_state.wire.errors import InvalidRequestError, UnknownJobError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.server.coordinator.batches.run_operators import RunStart
    from queryable_state.server.coordinator.model.engine import BatchClocks, QueryInfo
    from queryable_state.wire.errors import QueryableStateError

RUNNING = registration_pb2.RUNNING
FINISHED = registration_pb2.FINISHED
FAILED = registration_pb2.FAILED

# What the engine said of an older run may come late, but not by more runs than these.
_PAST_RUNS = 16
# Batches whose clocks are kept: operators deeper than this keep as many more.
_CLOCKS_KEPT = 8


@dataclass(kw_only=True)
class Job:
    """One streaming query with queryable state."""

    query_id: bytes
    name: str
    run_id: bytes
    past_runs: deque[bytes] = field(default_factory=lambda: deque(maxlen=_PAST_RUNS))
    started_at_ms: int
    """Milliseconds since the epoch of the first contact."""
    status: registration_pb2.JobStatus.ValueType = RUNNING
    error: str | None = None
    ended_order: int = 0
    """Grows with every end of a job: the oldest ends are forgotten first."""
    first_batch: int | None = None
    """Batch of the first contact: of what was before, nothing is known."""
    first_batch_of_run: int | None = None
    begun: int = -1
    """Newest batch begun in this run."""
    start: RunStart | None = None
    """What is known of this run since its start; None: nothing."""
    refusal: QueryableStateError | None = None
    """Why this run may begin and commit no batch any more; None: it may."""
    fenced: str = ""
    """Why this run was fenced: another driver has taken over the job. Empty: it was not."""
    reopening: bool = False
    """Whether what the job has stored is about to be opened, without a batch."""
    clocks: dict[int, BatchClocks] = field(default_factory=dict)
    """Of this run's newest batches and the ones before them."""
    partial_batches: int = 0
    """Batches that an operator missed, or ran on some of its subtasks only."""
    non_deterministic_batches: int = 0
    """Subtasks of batches that ran again on other input."""
    pins: int = 0
    """Snapshots under way: an ended job is not forgotten while it has one."""

    @property
    def label(self) -> str:
        """The job for people."""
        return job_label(self.name, self.query_id)

    def enter_run(self, info: QueryInfo) -> None:
        """Takes what the engine said; a new run starts with nothing begun.

        What it said before the newest run came is out of date, and ignored.
        """
        if info.run_id in self.past_runs:
            return
        self.name = info.name
        if info.run_id != self.run_id:
            self.past_runs.append(self.run_id)
            self.run_id = info.run_id
            self.first_batch_of_run = None
            self.begun = -1
            self.start = None
            self.refusal = None
            self.fenced = ""
            self.clocks.clear()

    def keep_clocks(self, batch_id: int, clocks: BatchClocks, depth: int) -> None:
        """Keeps the clocks of a batch, and forgets those no operator can ask for again."""
        self.clocks[batch_id] = clocks
        oldest = max(self.clocks) - max(_CLOCKS_KEPT, depth + 2)
        for batch in [batch for batch in self.clocks if batch < oldest]:
            del self.clocks[batch]


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
        """The job of a query that makes contact, made where it is the first."""
        job = self._jobs.get(query_id)
        if job is None:
            job = Job(
                query_id=query_id,
                name=info.name,
                run_id=info.run_id,
                started_at_ms=now_wall_ms,
            )
            self._jobs[query_id] = job
        job.enter_run(info)
        self.observe(job, info)
        return job

    def observe(self, job: Job, info: QueryInfo | None) -> bool:
        """Takes the state of the query from the engine; whether the job ended by that."""
        was_running = job.status == RUNNING
        if info is not None and info.run_id in job.past_runs:
            return False
        if info is not None and info.active:
            job.status, job.error = RUNNING, None
        elif info is not None and info.error is not None:
            job.status, job.error = FAILED, info.error
        elif was_running:
            # The engine may learn why only later; what it has said once, stays.
            job.status, job.error = FINISHED, None
        ended = was_running and job.status != RUNNING
        if ended:
            self._ended += 1
            job.ended_order = self._ended
        return ended

    def beyond(self, retained: int) -> list[Job]:
        """The ended jobs that are not among the `retained` newest ends."""
        ended = sorted(
            (job for job in self if job.status != RUNNING), key=lambda job: job.ended_order
        )
        return [job for job in ended[: max(0, len(ended) - retained)] if not job.pins]

    def drop(self, query_id: bytes) -> None:
        """Forgets a job."""
        self._jobs.pop(query_id, None)

    def resolve(self, job: str) -> Job:
        """The job of an id, with or without dashes, or of a name.

        Where several have the name, the running one, else the newest.
        """
        query_id = _id_of(job)
        if query_id is not None and query_id in self._jobs:
            return self._jobs[query_id]
        named = [known for known in self if known.name == job]
        if named:
            running = [known for known in named if known.status == RUNNING]
            return (running or named)[-1]
        candidates = [known.label for known in self]
        known_text = f"known: {', '.join(candidates)}" if candidates else "no job is known yet"
        raise UnknownJobError(
            f"no job has the id or name {job!r}; {known_text}", candidates=candidates
        )


def check_id(value: bytes, what: str) -> bytes:
    """Refuses what is not an id of 16 bytes."""
    if len(value) != 16:
        raise InvalidRequestError(f"{what} has {len(value)} bytes; it is the 16 bytes of a UUID")
    return value


def _id_of(text: str) -> bytes | None:
    try:
        return uuid.UUID(text.strip()).bytes
    except ValueError:
        return None


def job_label(name: str, query_id: bytes) -> str:
    """A job as errors and logs name it."""
    digits = query_id.hex()
    return f"{name!r} ({digits})" if name else digits
