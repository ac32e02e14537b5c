"""What the owner of a subtask loads before it opens its store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.internal.v1.checkpoint_pb2 import RestorePlan, RestoreSource
from queryable_state.server.coordinator.manifests import clipped
from queryable_state.server.coordinator.staged_files import StagedFiles
from queryable_state.v1 import registration_pb2
from queryable_state.wire.errors import (
    CheckpointError,
    PlacementError,
    RestoreMismatchError,
    RetryLaterError,
)
from queryable_state.wire.key_groups import key_group_range

if TYPE_CHECKING:
    from collections.abc import Iterable

    from queryable_state.internal.v1 import backend_pb2, coordinator_pb2
    from queryable_state.internal.v1.checkpoint_pb2 import (
        ChangelogFile,
        CheckpointMetadata,
        OperatorSnapshot,
        RangeSnapshot,
    )
    from queryable_state.server.coordinator.books import Books
    from queryable_state.server.coordinator.engine import Engine, QueryInfo
    from queryable_state.server.coordinator.job_roots import JobRoot, JobRoots

_RETRY_MS = 100
_OPERATOR_KINDS = (
    registration_pb2.OPERATOR_LIST,
    registration_pb2.OPERATOR_UNION,
    registration_pb2.BROADCAST,
)


class RestorePlans:
    """Makes plans from what the job's root has; only staged files are looked for in it."""

    def __init__(self, engine: Engine, books: Books, roots: JobRoots) -> None:
        self._engine = engine
        self._books = books
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
        states = self._states(root, subtask)
        _check_max_parallelism(subtask, ((state.max_parallelism, root.uri) for state in states))
        staged = self._staged(root, subtask, batch_id, at)
        self._note(request, staged)
        return _plan(root, subtask, batch_id, states, staged)

    def _check(
        self, request: coordinator_pb2.PlanRestoreRequest, info: QueryInfo
    ) -> tuple[int, int]:
        """Placement versions at which the subtask was assigned, and now."""
        books, subtask = self._books, request.subtask
        with books.changed:
            books.now_ms()
            server = books.servers.get(request.server_id)
            books.contact(books.enter(subtask.query_id, info), request.batch_id)
            operator = books.placement.operator(subtask.query_id, subtask.operator_uid)
            if operator is None or operator.parallelism != subtask.parallelism:
                raise PlacementError(
                    f"server {server.server_id} plans to open subtask {subtask.index} of "
                    f"{subtask.parallelism} of operator {subtask.operator_uid!r}, which has no "
                    "owner: ask for the owner first",
                    placement_version=books.placement.version,
                )
            ownership = books.placement.assigned(operator, subtask.index, server.server_id)
            if books.commits.version(subtask.query_id) != request.batch_id - 1:
                raise RetryLaterError(
                    f"batch {request.batch_id} has not begun", retry_after_ms=_RETRY_MS
                )
            return ownership.assigned_version, books.placement.version

    def _states(
        self, root: JobRoot, subtask: backend_pb2.Subtask
    ) -> list[registration_pb2.StateRegistration]:
        """The operator's states; those it takes over from a savepoint get their ids here."""
        uid = subtask.operator_uid
        stored = [
            state
            for operator in (root.savepoint.operators if root.savepoint else ())
            if operator.uid == uid
            for state in operator.states
        ]
        with self._books.changed:
            table = self._books.states
            table.adopt_anew(root.query_id, root.registrations.job_name, stored)
            return [s for s in table.of_job(root.query_id) if s.operator_uid == uid]

    def _staged(
        self, root: JobRoot, subtask: backend_pb2.Subtask, batch_id: int, at: tuple[int, int]
    ) -> list[ChangelogFile]:
        """What attempts before have sealed of the batch, of the same offsets."""
        sealed = self._sealed.of(
            root,
            batch_id,
            self._engine.clocks(root.query_id, batch_id).offsets_digest,
            (subtask.operator_uid, subtask.index),
            assigned_version=at[0],
            placement_version=at[1],
        )
        files = [file for file in sealed if file.operator_uid == subtask.operator_uid]
        return list(clipped(files, *_key_groups(subtask)))

    def _note(
        self, request: coordinator_pb2.PlanRestoreRequest, staged: Iterable[ChangelogFile]
    ) -> None:
        books, subtask = self._books, request.subtask
        with books.changed:
            operator = books.placement.operator(subtask.query_id, subtask.operator_uid)
            if operator is None:
                raise RetryLaterError("the query was dropped", retry_after_ms=_RETRY_MS)
            ownership = books.placement.assigned(operator, subtask.index, request.server_id)
            ownership.staged_files = frozenset(file.path for file in staged)
            # Before the plan is made: retention gives up files first, and looks for this then.
            ownership.restoring = True


def _plan(
    root: JobRoot,
    subtask: backend_pb2.Subtask,
    batch_id: int,
    states: list[registration_pb2.StateRegistration],
    staged: list[ChangelogFile],
) -> RestorePlan:
    uid, version = subtask.operator_uid, batch_id - 1
    whole = any(state.kind in _OPERATOR_KINDS for state in states)
    sources = [
        _source(root, metadata, subtask, whole=whole)
        for metadata in root.checkpoints()
        # One whose later changelogs are not all there leads to another state.
        if metadata.version <= version and root.covers(metadata.version, version)
    ]
    made = None if root.config.prefer_checkpoint else root.newest_savepoint()
    if made is not None and _is_newest(root, made[1], sources, version):
        uri, metadata = made
        operator = _operator(metadata, subtask)
        ranges = [] if operator is None else _ranges(operator, subtask, whole=whole)
        newest = RestoreSource(version=metadata.version, ranges=ranges, root=uri, location=uri)
        sources.insert(0, newest)
    savepoint = root.savepoint
    if savepoint is not None and root.covers(savepoint.version, version):
        sources.append(_savepoint_source(root, savepoint, subtask, states, whole=whole))
    first_batch = root.first_batch
    from_first_batch = not root.registrations.restored_from and root.covers(
        first_batch - 1, version
    )
    if not sources and not from_first_batch:
        raise CheckpointError(
            f"operator {uid!r} cannot go on at batch {batch_id}: {root.uri} has no complete "
            "checkpoint with all changelogs after it; bring the files back from a copy of the "
            "root, or start the job from a savepoint"
        )
    after = min((source.version for source in sources), default=version)
    manifests = root.manifests(first_batch - 1 if from_first_batch else after, version)
    changelogs = [
        file
        for manifest in manifests
        for file in _of(manifest.changelogs, uid, subtask, whole=whole)
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


def _is_newest(
    root: JobRoot, savepoint: CheckpointMetadata, sources: Iterable[RestoreSource], version: int
) -> bool:
    """Whether a savepoint is ahead of all checkpoints, and the changelogs go on behind it."""
    newest = max((source.version for source in sources), default=-1)
    return newest < savepoint.version <= version and root.covers(savepoint.version, version)


def _of(
    files: Iterable[ChangelogFile], uid: str, subtask: backend_pb2.Subtask, *, whole: bool
) -> Iterable[ChangelogFile]:
    """Changelogs of an operator, clipped to a subtask's key groups.

    With operator state those of other key groups too, whole: what they have of keys is not this
    subtask's, what they have of operator state may be.
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
    operator = _operator(savepoint, subtask)
    if operator is None:
        return RestoreSource(version=savepoint.version, root=uri, location=uri)
    _check_max_parallelism(subtask, [(operator.max_parallelism, uri)])
    ids = {state.state_name: state.state_id for state in states}
    return RestoreSource(
        version=savepoint.version,
        ranges=_ranges(operator, subtask, whole=whole),
        root=uri,
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
    for max_parallelism, where in stored:
        if max_parallelism != subtask.max_parallelism:
            raise RestoreMismatchError(
                f"operator {subtask.operator_uid!r} has {max_parallelism} key groups in {where}, "
                f"and the job is set to {subtask.max_parallelism}: set max_parallelism to "
                f"{max_parallelism}, which is fixed for the life of its state"
            )


def _key_groups(subtask: backend_pb2.Subtask) -> tuple[int, int]:
    return key_group_range(subtask.index, subtask.parallelism, subtask.max_parallelism)
