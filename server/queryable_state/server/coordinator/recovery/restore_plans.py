"""Restore plans: the files an owner loads before it opens the store of a subtask."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from queryable_state.internal.v1.checkpoint_pb2 import RestorePlan, RestoreSource
from queryable_state.server.checkpoint.changelog_folder import choose, list_sealed
from queryable_state.server.checkpoint.state_root import root_of_files
from queryable_state.server.coordinator.batches.manifests import clipped
from queryable_state.v1 import registration_pb2
from queryable_state.wire.errors import CheckpointError, RestoreMismatchError, RetryLaterError
from queryable_state.wire.keys.key_groups import key_group_range

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from queryable_state.internal.v1 import backend_pb2, coordinator_pb2
    from queryable_state.internal.v1.checkpoint_pb2 import (
        ChangelogFile,
        CheckpointMetadata,
        Manifest,
        OperatorSnapshot,
        RangeSnapshot,
    )
    from queryable_state.server.coordinator.model.engine import Engine, QueryInfo
    from queryable_state.server.coordinator.model.state import CoordinatorState
    from queryable_state.server.coordinator.roots.job_roots import JobRoot, JobRoots


_RETRY_MS = 100
_OPERATOR_KINDS = (
    registration_pb2.OPERATOR_LIST,
    registration_pb2.OPERATOR_UNION,
    registration_pb2.BROADCAST,
)


class _SealedFiles(NamedTuple):
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
    files: _SealedFiles = field(default_factory=lambda: _SealedFiles((), ()))
    told: set[tuple[str, int]] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)
    done: bool = False


class _StagedFiles:
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
    ) -> _SealedFiles:
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
                listing.files, listing.done = _SealedFiles(choose(sealed), choose(before)), True
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
        self._sealed = _StagedFiles()

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
        _check_max_parallelism(subtask, ((state.max_parallelism, root.uri) for state in states))
        whole = _has_operator_state(states)
        staged = self._staged(root, subtask, batch_id, at, whole=whole)
        self._note(request, staged)
        return _plan_of(root, subtask, batch_id, states, staged, whole=whole)

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
        mine = list(_changelogs_of(sealed.newest, subtask.operator_uid, subtask, whole=False))
        if not whole or any(file.token.run_epoch >= root.epoch for file in mine):
            return mine
        return list(_changelogs_of(sealed.before, subtask.operator_uid, subtask, whole=True))

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


def _has_operator_state(states: Iterable[registration_pb2.StateRegistration]) -> bool:
    """True if a subtask may take over elements of other subtasks, and so needs their files."""
    return any(state.kind in _OPERATOR_KINDS for state in states)


def _plan_of(
    root: JobRoot,
    subtask: backend_pb2.Subtask,
    batch_id: int,
    states: list[registration_pb2.StateRegistration],
    staged: list[ChangelogFile],
    *,
    whole: bool,
) -> RestorePlan:
    """Returns the restore plan of a subtask; `staged` are sealed changelogs of the next batch.

    `whole`: the operator has operator state. Raises CheckpointError if files are missing.
    """
    uid, version = subtask.operator_uid, batch_id - 1
    # Read manifests before checkpoints: retention may delete either concurrently, oldest first.
    first_batch = root.first_batch
    manifests = root.manifests(first_batch - 1, version)
    reach = _reach(manifests, version)
    sources = [
        _source(root, metadata, subtask, whole=whole)
        for metadata in root.checkpoints()
        # A checkpoint without all later changelogs would give another state.
        if reach <= metadata.version <= version
    ]
    made = None if root.config.prefer_checkpoint else root.newest_savepoint()
    newest_version = max((source.version for source in sources), default=-1)
    if made is not None and max(newest_version + 1, reach) <= made[1].version <= version:
        uri, metadata = made
        operator = _operator(metadata, subtask)
        ranges = [] if operator is None else _ranges(operator, subtask, whole=whole)
        newest = RestoreSource(version=metadata.version, ranges=ranges, root=uri, location=uri)
        sources.insert(0, newest)
    savepoint = root.savepoint
    if savepoint is not None and reach <= savepoint.version:
        sources.append(_savepoint_source(root, savepoint, subtask, states, whole=whole))
    from_first_batch = not root.registrations.restored_from and reach < first_batch
    if not sources and not from_first_batch:
        raise CheckpointError(
            f"operator {uid!r} cannot continue at batch {batch_id}: {root.uri} has no complete "
            "checkpoint with all changelogs after it; restore the files from a backup of the "
            "root, or start the job from a savepoint"
        )
    after = min((source.version for source in sources), default=version)
    if from_first_batch:
        after = first_batch - 1
    changelogs = [
        file
        for manifest in manifests
        if manifest.batch_id > after
        for file in _changelogs_of(manifest.changelogs, uid, subtask, whole=whole)
    ]
    return RestorePlan(
        durable=True,
        sources=sources,
        changelogs=changelogs,
        staged=staged,
        from_first_batch=from_first_batch,
        complete_since_batch=root.complete_since,
        storage=root.job_storage(),
        states=states,
    )


def _reach(manifests: Sequence[Manifest], version: int) -> int:
    """Returns the version from which on every batch up to `version` has a manifest."""
    for manifest in reversed(manifests):
        if manifest.batch_id != version:
            break
        version -= 1
    return version


def _changelogs_of(
    files: Iterable[ChangelogFile], uid: str, subtask: backend_pb2.Subtask, *, whole: bool
) -> Iterable[ChangelogFile]:
    """Returns the changelogs of an operator, clipped to a subtask's key groups.

    With operator state, it adds the whole changelogs of other key groups: the subtask may take
    over operator state from them, but no keys.
    """
    mine = [file for file in files if file.operator_uid == uid]
    first, last = _key_groups(subtask)
    yield from clipped(mine, first, last)
    if whole:
        for file in mine:
            if file.first_key_group > last or file.last_key_group < first:
                yield file


def _source(
    root: JobRoot, metadata: CheckpointMetadata, subtask: backend_pb2.Subtask, *, whole: bool
) -> RestoreSource:
    operator = _operator(metadata, subtask)
    return RestoreSource(
        checkpoint_id=metadata.checkpoint_id,
        version=metadata.version,
        ranges=[] if operator is None else _ranges(operator, subtask, whole=whole),
        root=root.uri,
        location=root.root.path(f"chk-{metadata.checkpoint_id}"),
    )


def _savepoint_source(
    root: JobRoot,
    savepoint: CheckpointMetadata,
    subtask: backend_pb2.Subtask,
    states: list[registration_pb2.StateRegistration],
    *,
    whole: bool,
) -> RestoreSource:
    uri = root.registrations.restored_from
    files_root = root_of_files(uri.rstrip("/"), savepoint)
    operator = _operator(savepoint, subtask)
    if operator is None:
        return RestoreSource(version=savepoint.version, root=files_root, location=uri)
    _check_max_parallelism(subtask, [(operator.max_parallelism, uri)])
    ids = {state.state_name: state.state_id for state in states}
    return RestoreSource(
        version=savepoint.version,
        ranges=_ranges(operator, subtask, whole=whole),
        root=files_root,
        stored_state_ids=[state.state_id for state in operator.states],
        state_ids=[ids[state.state_name] for state in operator.states],
        location=uri,
    )


def _operator(
    metadata: CheckpointMetadata, subtask: backend_pb2.Subtask
) -> OperatorSnapshot | None:
    return next((o for o in metadata.operators if o.uid == subtask.operator_uid), None)


def _ranges(
    operator: OperatorSnapshot, subtask: backend_pb2.Subtask, *, whole: bool
) -> list[RangeSnapshot]:
    first, last = _key_groups(subtask)
    return [
        part
        for part in operator.ranges
        if whole or (part.first_key_group <= last and part.last_key_group >= first)
    ]


def _check_max_parallelism(subtask: backend_pb2.Subtask, stored: Iterable[tuple[int, str]]) -> None:
    """Raises if stored state has another number of key groups; names where it is stored."""
    for max_parallelism, where in stored:
        if max_parallelism != subtask.max_parallelism:
            raise RestoreMismatchError(
                f"operator {subtask.operator_uid!r} has {max_parallelism} key groups in {where}, "
                f"and the job is set to {subtask.max_parallelism}: set max_parallelism to "
                f"{max_parallelism}, which is fixed for the life of its state"
            )


def _key_groups(subtask: backend_pb2.Subtask) -> tuple[int, int]:
    return key_group_range(subtask.index, subtask.parallelism, subtask.max_parallelism)
