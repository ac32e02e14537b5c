"""Catalog of jobs and their queryable states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.server.coordinator.model.jobs import FINISHED, RUNNING
from queryable_state.server.coordinator.model.registrations import OperatorClaim
from queryable_state.server.coordinator.roots.registrations import check_states, keep_registrations
from queryable_state.v1 import registration_pb2
from queryable_state.wire.errors import (
    AmbiguousJobError,
    InvalidRequestError,
    RetryLaterError,
    UnknownStateError,
)
from queryable_state.wire.keys.key_groups import key_group_range

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from queryable_state.internal.v1 import coordinator_pb2
    from queryable_state.server.coordinator.model.engine import QueryInfo
    from queryable_state.server.coordinator.model.jobs import Job
    from queryable_state.server.coordinator.model.state import CoordinatorState
    from queryable_state.server.coordinator.roots.job_roots import JobRoot

_RETRY_MS = 100


@dataclass(frozen=True, kw_only=True)
class JobView:
    """A job as the driver's API shows it."""

    query_id: bytes
    job_id: str
    """32 hex digits."""
    name: str
    status: str
    """RUNNING, FINISHED or FAILED."""
    error: str | None
    started_at_ms: int
    """Milliseconds since the epoch of its first contact."""
    committed_batch: int
    """-1: none."""
    states: tuple[str, ...]
    """Queryable names, sorted."""
    partial_batches: int
    """Times an operator ran on some of its subtasks only."""
    non_deterministic_batches: int
    """Times a subtask ran again on other input."""


class Catalog:
    """Registers, finds, lists and forgets jobs and states. Thread-safe; registration does I/O."""

    def __init__(self, state: CoordinatorState) -> None:
        self._state = state
        # By state id, until placement or registration change: a location may have thousands of
        # owners, and every proxy requests it.
        self._locations: dict[int, registration_pb2.StateLocation] = {}

    def register_states(
        self,
        request: coordinator_pb2.RegisterStatesRequest,
        info: QueryInfo,
        root: JobRoot | None,
    ) -> list[registration_pb2.StateRegistration]:
        """Registers all states of an operator, or none of them, and writes them to the job's root.

        Refuses states that differ from those of the root.
        """
        uid = request.subtask.operator_uid
        if root is not None:
            check_states(root, uid, request.operator_name, request.states)
        with self._state.transaction():
            job = self._state.enter(request.subtask.query_id, info)
            operator = OperatorClaim(
                job_id=job.query_id,
                job_name=job.name,
                uid=uid,
                name=request.operator_name,
                depth=request.operator_depth,
                max_parallelism=request.subtask.max_parallelism,
            )
            states = self._state.states.register(operator, request.states)
        if root is not None:
            keep_registrations(self._state, root)
        return states

    def locate(self, job: str, state_name: str) -> registration_pb2.StateLocation:
        """A state's registration and the owners of its key groups; callers may not modify it."""
        state = self._state
        with state.transaction():
            found = self._job_of(job, state_name)
            found.run.check_not_fenced()
            states = state.states.queryable(found.query_id)
            if state_name not in states:
                _check_known([found])
                raise _unknown_state(state_name, f"job {found.label}", list(states))
            registration = states[state_name]
            version = state.placement.version
            known = self._locations.get(registration.state_id)
            if (
                known is None
                or known.placement_version != version
                or known.registration != registration
            ):
                known = self._locations[registration.state_id] = registration_pb2.StateLocation(
                    registration=registration,
                    placement_version=version,
                    owners=self._owners(registration),
                )
            if not any(owner.server_id for owner in known.owners):
                found.run.check_not_refused()
            return known

    def list_jobs(self) -> list[JobView]:
        """Every job, by first contact."""
        with self._state.transaction():
            return [self.view(job) for job in self._state.jobs]

    def list_states(self, job: str = "") -> list[registration_pb2.StateRegistration]:
        """The queryable states of a job (id or name), or of all, by job and queryable name."""
        state = self._state
        with state.transaction():
            jobs = [state.jobs.resolve(job)] if job else list(state.jobs)
            return [
                registration
                for each in jobs
                for registration in state.states.queryable(each.query_id).values()
            ]

    def running(self) -> list[bytes]:
        """The jobs for whose end Spark must be polled."""
        return self._in_status(RUNNING)

    def ended_without_cause(self) -> list[bytes]:
        """The jobs that ended without an error, or whose error Spark has not reported yet."""
        return self._in_status(FINISHED)

    def _in_status(self, status: registration_pb2.JobStatus.ValueType) -> list[bytes]:
        with self._state.transaction():
            return [job.query_id for job in self._state.jobs if job.status == status]

    def observe(self, observed: Mapping[bytes, QueryInfo | None]) -> None:
        """Updates jobs from what Spark reports of their queries."""
        with self._state.transaction():
            for query_id, info in observed.items():
                job = self._state.jobs.find(query_id)
                if job is not None:
                    self._state.jobs.observe(job, info)

    def drop(self, query_id: bytes) -> Sequence[str]:
        """Forgets an ended job; returns its holders, HOST:PORT of `StateBackend`."""
        with self._state.transaction():
            job = self._state.jobs.resolve(query_id.hex())
            if job.status == RUNNING:
                raise InvalidRequestError(f"job {job.label} is running: stop it before its state")
            return self._dropped(job)

    def drop_beyond(self, retained: int) -> dict[bytes, Sequence[str]]:
        """Forgets the oldest ended jobs; returns their holders by query."""
        with self._state.transaction():
            beyond = self._state.jobs.beyond(retained)
            return {job.query_id: self._dropped(job) for job in beyond}

    def _dropped(self, job: Job) -> Sequence[str]:
        self._locations.clear()
        return list(self._state.drop(job).values())

    def _job_of(self, job_text: str, state_name: str) -> Job:
        jobs = self._state.jobs
        if job_text:
            return jobs.resolve(job_text)
        having = set(self._state.states.jobs_with(state_name))
        found = [job for job in jobs if job.query_id in having]
        running = [job for job in found if job.status == RUNNING]
        # Ended jobs stay readable by id; a request without a job means the running one.
        chosen = running or found
        if not chosen:
            _check_known(jobs)
            names = sorted({n for job in jobs for n in self._state.states.queryable(job.query_id)})
            raise _unknown_state(state_name, "any job", names)
        if len(chosen) > 1:
            labels = [job.label for job in chosen]
            raise AmbiguousJobError(
                f"{len(labels)} jobs have a state {state_name!r}: name one of {', '.join(labels)}",
                candidates=labels,
            )
        return chosen[0]

    def _owners(
        self, registration: registration_pb2.StateRegistration
    ) -> list[registration_pb2.RangeOwner]:
        placement = self._state.placement
        operator = placement.operator(registration.job_id, registration.operator_uid)
        if operator is None:
            last = registration.max_parallelism - 1
            return [registration_pb2.RangeOwner(first_key_group=0, last_key_group=last)]
        owners = []
        for index in range(operator.parallelism):
            first, last = key_group_range(index, operator.parallelism, operator.max_parallelism)
            server = placement.owner(operator, index)
            owners.append(
                registration_pb2.RangeOwner(
                    first_key_group=first,
                    last_key_group=last,
                    server_id=server.server_id if server else "",
                    address=server.query_address if server else "",
                    frames=server.frames if server else None,
                )
            )
        return owners

    def view(self, job: Job) -> JobView:
        """A job as callers see it. Call inside a transaction."""
        return JobView(
            query_id=job.query_id,
            job_id=job.query_id.hex(),
            name=job.name,
            status=registration_pb2.JobStatus.Name(job.status),
            error=job.error,
            started_at_ms=job.started_at_ms,
            committed_batch=self._state.commits.version(job.query_id),
            states=tuple(self._state.states.queryable(job.query_id)),
            partial_batches=job.partial_batches,
            non_deterministic_batches=job.non_deterministic_batches,
        )


def job_info(view: JobView) -> registration_pb2.JobInfo:
    """A job as it crosses the wire."""
    return registration_pb2.JobInfo(
        job_id=view.query_id,
        job_id_hex=view.job_id,
        name=view.name,
        status=registration_pb2.JobStatus.Value(view.status),
        started_at_ms=view.started_at_ms,
        committed_batch=view.committed_batch,
        states=view.states,
    )


def _check_known(jobs: Iterable[Job]) -> None:
    """Raises if states of a job may be unknown because they are being restored, or cannot be."""
    for job in jobs:
        job.run.check_not_refused()
        if job.run.restoring:
            raise RetryLaterError(
                f"the stored state of job {job.label} is being restored", retry_after_ms=_RETRY_MS
            )


def _unknown_state(state_name: str, where: str, known: list[str]) -> UnknownStateError:
    text = f"known: {', '.join(known)}" if known else "none is registered before a first batch"
    return UnknownStateError(
        f"no queryable state {state_name!r} in {where}; {text}", candidates=known
    )
