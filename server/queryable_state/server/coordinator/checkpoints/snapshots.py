"""Planning of snapshots of a whole job, as of one committed batch."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeGuard

from queryable_state.internal.v1 import backend_pb2
from queryable_state.server.coordinator.checkpoints.history import DeclinedError
from queryable_state.server.coordinator.model.jobs import RUNNING
from queryable_state.server.coordinator.roots.registrations import keep_registrations
from queryable_state.wire.errors import UnknownJobError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from queryable_state.server.coordinator.model.commits import CompactionCap
    from queryable_state.server.coordinator.model.jobs import Job
    from queryable_state.server.coordinator.model.operators import Operator, Ownership
    from queryable_state.server.coordinator.model.state import CoordinatorState
    from queryable_state.server.coordinator.roots.job_roots import JobRoot, JobRoots
    from queryable_state.v1 import registration_pb2


_LOOK_S = 0.02


@dataclass(frozen=True, kw_only=True)
class PlannedOperator:
    """A stateful operator as a snapshot has it."""

    uid: str
    name: str
    depth: int
    parallelism: int
    max_parallelism: int
    states: tuple[registration_pb2.StateRegistration, ...]


@dataclass(frozen=True, kw_only=True)
class PlannedServer:
    """What one server has to write."""

    address: str
    """HOST:PORT of `StateBackend`."""
    subtasks: tuple[backend_pb2.Subtask, ...]
    opened: tuple[int, ...]
    """Batch at which each was opened: another one is another store."""


@dataclass(frozen=True, kw_only=True)
class SnapshotPlan:
    """All subtasks of a job, and the committed batch to write them as of.

    While its cap is held, no server compacts newer versions.
    """

    query_id: bytes
    job_name: str
    label: str
    cap: CompactionCap
    commit_time_ms: int
    watermark_ms: int
    operators: tuple[PlannedOperator, ...]
    servers: Mapping[str, PlannedServer]
    """By id."""
    complete_since: int
    """First batch since which all of it is complete; 0: all is."""

    @property
    def version(self) -> int:
        """The committed batch."""
        return self.cap.version


class Snapshots:
    """Plans snapshots, and pins jobs while they run. Thread-safe; only `keep_states` does I/O."""

    def __init__(self, state: CoordinatorState, roots: JobRoots) -> None:
        self._state = state
        self._roots = roots

    def resolve(self, job_text: str) -> bytes:
        """The query of a job's id or name; for an empty text the only running job."""
        with self._state.transaction():
            if job_text:
                return self._state.jobs.resolve(job_text).query_id
            running = [job for job in self._state.jobs if job.status == RUNNING]
            if len(running) != 1:
                labels = [job.label for job in running]
                what = f"{len(labels)} jobs run: name one of {', '.join(labels)}"
                raise UnknownJobError(what if labels else "no job is running", candidates=labels)
            return running[0].query_id

    def label(self, query_id: bytes) -> str:
        """The job for people."""
        with self._state.transaction():
            job = self._state.jobs.find(query_id)
            return job.label if job else query_id.hex()

    def committed(self, query_id: bytes) -> int | None:
        """The published batch, which a snapshot would be of; None if the job does not run."""
        with self._state.transaction():
            job = self._state.jobs.find(query_id)
            if job is None or job.status != RUNNING:
                return None
            return self._state.commits.published_commit(query_id).version

    def newest_commit(self, query_id: bytes) -> int:
        """The newest committed batch, published or not; -1: none."""
        with self._state.transaction():
            return self._state.commits.version(query_id)

    @contextmanager
    def pinned(self, query_id: bytes) -> Iterator[None]:
        """Prevents that an ended job is forgotten."""
        with self._state.transaction():
            job = self._job(query_id)
            job.pins += 1
        try:
            yield
        finally:
            with self._state.transaction():
                job.pins -= 1

    def keep_states(self, root: JobRoot) -> None:
        """Writes the states of a job to its root before files have their ids. I/O."""
        keep_registrations(self._state, root)

    @contextmanager
    def planned(self, query_id: bytes) -> Iterator[SnapshotPlan]:
        """Plans a snapshot of the published batch; its compaction cap ends with the context.

        Raises DeclinedError if no batch is committed, or a subtask is not open.
        """
        with self._state.transaction():
            plan = self._plan(self._job(query_id))
        try:
            yield plan
        finally:
            self.lift(plan)

    def lift(self, plan: SnapshotPlan) -> None:
        """Lets stores compact newer versions again; may be repeated."""
        state = self._state
        with state.transaction():
            state.commits.lift_cap(plan.cap)
            state.advance_min_acked(plan.query_id)

    def await_published(self, query_id: bytes, timeout_s: float) -> None:
        """Waits until the newest commit is published, at most for the timeout."""
        commits = self._state.commits
        self._state.wait_for(
            lambda: commits.is_published(query_id, commits.version(query_id)), timeout_s
        )

    def await_min_acked(self, plan: SnapshotPlan, timeout_s: float) -> None:
        """Waits until every server has acked the version, so that all compact up to it."""
        state = self._state
        deadline_s = time.monotonic() + timeout_s

        def is_acked() -> bool:
            state.advance_min_acked(plan.query_id)
            return state.commits.min_acked(plan.query_id) >= plan.version

        # Polled: neither heartbeats nor lapses of servers notify waiters.
        while not state.wait_for(is_acked, _LOOK_S):
            if time.monotonic() >= deadline_s:
                raise DeclinedError(
                    f"job {plan.label}: not every state server has acked batch "
                    f"{plan.version} within {timeout_s:g} s"
                )

    def moved(self, plan: SnapshotPlan, server_ids: Collection[str]) -> str:
        """Text naming a server that lost a store of the plan; empty if none did."""
        state = self._state
        with state.transaction():
            for server_id in server_ids:
                planned = plan.servers[server_id]
                for subtask, opened in zip(planned.subtasks, planned.opened, strict=True):
                    operator = state.placement.operator(plan.query_id, subtask.operator_uid)
                    owned = operator.subtasks.get(subtask.index) if operator else None
                    if (
                        operator is None
                        or operator.parallelism != subtask.parallelism
                        or not _is_open(owned)
                        or owned.server_id != server_id
                        or owned.opened_batch != opened
                        or state.placement.owner(operator, subtask.index) is None
                    ):
                        return (
                            f"state server {server_id} at {planned.address} lost subtask "
                            f"{subtask.index} of operator {subtask.operator_uid!r}"
                        )
            return ""

    def is_restoring(self, query_id: bytes) -> bool:
        """Whether a server may be reading files of the job's root, to open a subtask."""
        with self._state.transaction():
            placement = self._state.placement
            return any(
                owned.restoring and placement.owner(operator, index) is not None
                for operator in placement.operators(query_id)
                for index, owned in operator.subtasks.items()
            )

    def _job(self, query_id: bytes) -> Job:
        job = self._state.jobs.find(query_id)
        if job is None:
            raise UnknownJobError(f"no job {query_id.hex()} is known")
        return job

    def _plan(self, job: Job) -> SnapshotPlan:
        state = self._state
        job.run.check_not_fenced()
        operators = list(state.placement.operators(job.query_id))
        if not operators:
            raise DeclinedError(f"job {job.label} has no stateful operator that has run")
        closed = next(filter(None, map(self._closed, operators)), "")
        if closed:
            raise DeclinedError(f"job {job.label}: {closed} is not open on any state server")
        cap = state.commits.cap_compaction(job.query_id)
        if cap is None:
            raise DeclinedError(f"job {job.label} has not committed a batch")
        try:
            newest = state.commits.published_commit(job.query_id)
            root, first = self._roots.of(job.query_id), job.run.first_batch
            if root is not None:
                ran_whole = first is not None and cap.version >= first
                uids = {operator.uid for operator in operators}
                _check_none_absent(root, job.label, uids, cap.version, ran_whole=ran_whole)
            opened = max(o.opened_batch for op in operators for o in op.subtasks.values())
            if opened > cap.version + 1:
                raise DeclinedError(
                    f"job {job.label}: a subtask was opened at batch {opened}, and commits after "
                    f"batch {cap.version} are not published to every state server yet"
                )
            return SnapshotPlan(
                query_id=job.query_id,
                job_name=job.name,
                label=job.label,
                cap=cap,
                commit_time_ms=newest.commit_time_ms,
                watermark_ms=newest.watermark_ms,
                operators=tuple(self._operator(operator) for operator in operators),
                servers=self._servers(operators),
                complete_since=max(
                    owned.complete_since for op in operators for owned in op.subtasks.values()
                ),
            )
        except BaseException:
            state.commits.lift_cap(cap)
            raise

    def _closed(self, operator: Operator) -> str:
        for index in range(operator.parallelism):
            owned = operator.subtasks.get(index)
            if not _is_open(owned) or self._state.placement.owner(operator, index) is None:
                return f"subtask {index} of operator {operator.uid!r}"
        return ""

    def _operator(self, operator: Operator) -> PlannedOperator:
        states = self._state.states.of_operator(operator.query_id, operator.uid)
        return PlannedOperator(
            uid=operator.uid,
            name=states[0].operator_name if states else "",
            depth=states[0].operator_depth if states else 0,
            parallelism=operator.parallelism,
            max_parallelism=operator.max_parallelism,
            states=tuple(states),
        )

    def _servers(self, operators: list[Operator]) -> dict[str, PlannedServer]:
        subtasks: dict[str, list[tuple[backend_pb2.Subtask, int]]] = {}
        for operator in operators:
            for index, owned in sorted(operator.subtasks.items()):
                subtask = backend_pb2.Subtask(
                    query_id=operator.query_id,
                    operator_uid=operator.uid,
                    index=index,
                    parallelism=operator.parallelism,
                    max_parallelism=operator.max_parallelism,
                )
                subtasks.setdefault(owned.server_id, []).append((subtask, owned.opened_batch))
        addresses = self._state.holders(operators[0].query_id)
        return {
            server_id: PlannedServer(
                address=addresses[server_id],
                subtasks=tuple(subtask for subtask, _ in of_server),
                opened=tuple(opened for _, opened in of_server),
            )
            for server_id, of_server in subtasks.items()
        }


def _is_open(owned: Ownership | None) -> TypeGuard[Ownership]:
    return owned is not None and owned.opened


def _check_none_absent(
    root: JobRoot, label: str, opened: Collection[str], version: int, *, ran_whole: bool
) -> None:
    """DeclinedError where a snapshot of the opened operators would leave out state of others.

    A restore from it would find nothing of them. A run opens an operator with its first task,
    which comes after the stages before it, or when the user's function runs it. `ran_whole`: the
    run has committed a batch; what it has not opened by then may be left behind where the job
    allows state that is not restored.
    """
    if ran_whole and root.config.allow_non_restored_state:
        return
    absent = sorted(
        uid
        for uid in root.stored_uids(version).difference(opened)
        if not root.stored.is_given_up(uid)
    )
    if absent:
        raise DeclinedError(
            f"job {label}: {root.uri} has state of operators that have not run since the job was "
            f"started: {', '.join(map(repr, absent))}; where the job has them no more, allow state "
            "that is not restored"
        )
