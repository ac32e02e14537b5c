"""Restore plans: the files an owner loads before it opens the store of a subtask."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from queryable_state.internal.v1.checkpoint_pb2 import RestorePlan
from queryable_state.server.checkpoint.changelog_folder import choose, list_sealed
from queryable_state.server.coordinator.recovery.restore_sources import (
    changelogs_of,
    check_max_parallelism,
    has_operator_state,
    plan_of,
)
from queryable_state.wire.errors import RetryLaterError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from queryable_state.internal.v1 import backend_pb2, coordinator_pb2
    from queryable_state.internal.v1.checkpoint_pb2 import ChangelogFile
    from queryable_state.server.coordinator.model.engine import Engine, QueryInfo
    from queryable_state.server.coordinator.model.state import CoordinatorState
    from queryable_state.server.coordinator.roots.job_roots import JobRoot, JobRoots
    from queryable_state.v1 import registration_pb2


_RETRY_MS = 100


class SealedFiles(NamedTuple):
    """The valid changelogs of an uncommitted batch, of all operators."""

    newest: Sequence[ChangelogFile]
    """Chosen among the files of all runs."""
    before: Sequence[ChangelogFile]
    """Chosen among the files of earlier runs."""


@dataclass(kw_only=True)
class _Listing:
    batch_id: int
    run_epoch: int
    placement_version: int
    files: SealedFiles = field(default_factory=lambda: SealedFiles((), ()))
    told: set[tuple[str, int]] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)
    done: bool = False


class StagedFiles:
    """Lists the folder of a batch once for all subtasks that are opened together. Thread-safe.

    A listing serves a subtask that was assigned before it began: whoever owned the subtask before
    had ended by then, so what it was acknowledged is in it. It serves each subtask once: one that
    is opened again may have sealed meanwhile.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listings: dict[bytes, _Listing] = {}

    def of(
        self,
        root: JobRoot,
        batch_id: int,
        digest: bytes,
        subtask: tuple[str, int],
        *,
        assigned_version: int,
        placement_version: int,
    ) -> SealedFiles:
        """Returns the sealed files of a batch. `subtask`: uid and index."""
        with self._lock:
            listing = self._listings.get(root.query_id)
            if (
                listing is None
                or (listing.batch_id, listing.run_epoch) != (batch_id, root.epoch)
                or listing.placement_version < assigned_version
                or subtask in listing.told
            ):
                listing = _Listing(
                    batch_id=batch_id, run_epoch=root.epoch, placement_version=placement_version
                )
                self._listings[root.query_id] = listing
            listing.told.add(subtask)
        with listing.lock:
            if not listing.done:
                sealed = list_sealed(root.storage, root.uri, batch_id, digest, root.states)
                before = [file for file in sealed if file.token.run_epoch < root.epoch]
                listing.files, listing.done = SealedFiles(choose(sealed), choose(before)), True
            return listing.files

    def forget(self, query_id: bytes) -> None:
        """Forgets what was listed of a query."""
        with self._lock:
            self._listings.pop(query_id, None)


class RestorePlans:
    """Makes plans from the loaded root of a job; lists only staged files in storage."""

    def __init__(self, engine: Engine, state: CoordinatorState, roots: JobRoots) -> None:
        self._engine = engine
        self._state = state
        self._roots = roots
        self._sealed = StagedFiles()

    def forget(self, query_id: bytes) -> None:
        """Forgets what was looked for of a query."""
        self._sealed.forget(query_id)

    def plan(self, request: coordinator_pb2.PlanRestoreRequest, info: QueryInfo) -> RestorePlan:
        """The plan for the server that the subtask is assigned to, before a batch begins.

        NOT_OWNER for any other server, RestoreMismatchError where what is stored has other key
        groups.
        """
        subtask, batch_id = request.subtask, request.batch_id
        config = self._roots.config(subtask.query_id)
        if config is None or self._roots.bound_run(subtask.query_id) != info.run_id:
            raise RetryLaterError(
                f"batch {batch_id} of query {subtask.query_id.hex()} has not begun: its run must "
                "begin before its state is loaded",
                retry_after_ms=_RETRY_MS,
            )
        at = self._check(request, info)
        root = self._roots.of(subtask.query_id)
        if root is None:
            return RestorePlan(durable=False, storage=config.storage(""))
        states = self.states(root, subtask.operator_uid)
        check_max_parallelism(subtask, ((state.max_parallelism, root.uri) for state in states))
        whole = has_operator_state(states)
        staged = self._staged(root, subtask, batch_id, at, whole=whole)
        self._note(request, staged)
        return plan_of(root, subtask, batch_id, states, staged, whole=whole)

    def _check(
        self, request: coordinator_pb2.PlanRestoreRequest, info: QueryInfo
    ) -> tuple[int, int]:
        """Placement versions at which the subtask was assigned, and now."""
        state, subtask = self._state, request.subtask
        with state.transaction():
            server = state.servers.get(request.server_id)
            state.contact(state.enter(subtask.query_id, info), request.batch_id)
            operator = state.operator_of(subtask, server.server_id)
            ownership = state.placement.assigned(operator, subtask.index, server.server_id)
            if state.commits.version(subtask.query_id) != request.batch_id - 1:
                raise RetryLaterError(
                    f"batch {request.batch_id} has not begun", retry_after_ms=_RETRY_MS
                )
            return ownership.assigned_version, state.placement.version

    def states(self, root: JobRoot, uid: str) -> list[registration_pb2.StateRegistration]:
        """An operator's states; those it takes over from a savepoint get their ids here."""
        stored = [
            state
            for operator in (root.savepoint.operators if root.savepoint else ())
            if operator.uid == uid
            for state in operator.states
        ]
        with self._state.transaction():
            table = self._state.states
            table.adopt_anew(root.query_id, root.registrations.job_name, stored)
            return [s for s in table.of_job(root.query_id) if s.operator_uid == uid]

    def _staged(
        self,
        root: JobRoot,
        subtask: backend_pb2.Subtask,
        batch_id: int,
        at: tuple[int, int],
        *,
        whole: bool,
    ) -> list[ChangelogFile]:
        """The changelogs that earlier attempts have sealed of the batch, of the same offsets.

        A seal of this run at the subtask replaces all that earlier runs sealed. Seals of this run
        at other subtasks are not part of it: all subtasks of a run start from the same state.
        """
        if not self._is_planned(root.query_id, batch_id):
            return []
        sealed = self._sealed.of(
            root,
            batch_id,
            self._engine.clocks(root.query_id, batch_id).offsets_digest,
            (subtask.operator_uid, subtask.index),
            assigned_version=at[0],
            placement_version=at[1],
        )
        mine = list(changelogs_of(sealed.newest, subtask.operator_uid, subtask, whole=False))
        if not whole or any(file.token.run_epoch >= root.epoch for file in mine):
            return mine
        return list(changelogs_of(sealed.before, subtask.operator_uid, subtask, whole=True))

    def _is_planned(self, query_id: bytes, batch_id: int) -> bool:
        """Whether the batch has offsets, without which nothing that is sealed can be of it."""
        with self._state.transaction():
            job = self._state.jobs.find(query_id)
            if job is not None and job.run.begun >= batch_id:
                return True
        return self._engine.is_planned(query_id, batch_id)

    def _note(
        self, request: coordinator_pb2.PlanRestoreRequest, staged: Iterable[ChangelogFile]
    ) -> None:
        state, subtask = self._state, request.subtask
        with state.transaction():
            operator = state.placement.operator(subtask.query_id, subtask.operator_uid)
            if operator is None:
                raise RetryLaterError("the query was dropped", retry_after_ms=_RETRY_MS)
            ownership = state.placement.assigned(operator, subtask.index, request.server_id)
            # Before the plan is made: retention first gives up files, then checks for restores.
            ownership.plan_restore(frozenset(file.path for file in staged))
