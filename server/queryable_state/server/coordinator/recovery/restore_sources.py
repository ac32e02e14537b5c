"""Sources of a restore: the files of a job's root that make up the store of a subtask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.internal.v1.checkpoint_pb2 import RestorePlan, RestoreSource
from queryable_state.server.checkpoint.state_root import root_of_files
from queryable_state.server.coordinator.batches.manifests import clipped
from queryable_state.v1 import registration_pb2
from queryable_state.wire.errors import CheckpointError, RestoreMismatchError
from queryable_state.wire.keys.key_groups import key_group_range

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from queryable_state.internal.v1 import backend_pb2
    from queryable_state.internal.v1.checkpoint_pb2 import (
        ChangelogFile,
        CheckpointMetadata,
        Manifest,
        OperatorSnapshot,
        RangeSnapshot,
    )
    from queryable_state.server.coordinator.roots.job_roots import JobRoot

_OPERATOR_KINDS = (
    registration_pb2.OPERATOR_LIST,
    registration_pb2.OPERATOR_UNION,
    registration_pb2.BROADCAST,
)


def has_operator_state(states: Iterable[registration_pb2.StateRegistration]) -> bool:
    """True if a subtask may take over elements of other subtasks, and so needs their files."""
    return any(state.kind in _OPERATOR_KINDS for state in states)


def plan_of(
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
        for file in changelogs_of(manifest.changelogs, uid, subtask, whole=whole)
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


def changelogs_of(
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
    check_max_parallelism(subtask, [(operator.max_parallelism, uri)])
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


def check_max_parallelism(subtask: backend_pb2.Subtask, stored: Iterable[tuple[int, str]]) -> None:
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
