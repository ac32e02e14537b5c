"""Metadata of a checkpoint or savepoint, made from the files that the servers wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.internal.v1 import checkpoint_pb2
from queryable_state.server.checkpoint.file_systems.storage import join
from queryable_state.wire.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from queryable_state.internal.v1.checkpoint_pb2 import CheckpointMetadata, RangeSnapshot
    from queryable_state.server.checkpoint.file_systems.storage import CheckpointStorage
    from queryable_state.server.coordinator.checkpoints.snapshot_plan import SnapshotPlan
    from queryable_state.server.coordinator.checkpoints.snapshot_round import SnapshotTarget
    from queryable_state.server.coordinator.model.engine import BatchClocks

FORMAT_VERSION = 1


def metadata_of(
    plan: SnapshotPlan,
    ranges: Sequence[RangeSnapshot],
    clocks: BatchClocks,
    *,
    checkpoint_id: int,
    run_epoch: int,
    triggered_at_ms: int,
    duration_ms: int,
    registrations: str = "",
    timeline: checkpoint_pb2.Timeline | None = None,
    progress: checkpoint_pb2.EngineProgress | None = None,
) -> CheckpointMetadata:
    """The metadata of what was written; an id of 0: of a savepoint.

    `registrations` is the file name of those in force, and `progress` the engine's logs; a
    savepoint needs neither. `timeline` is that of the job, None for the one it began with.
    """
    operators = [
        checkpoint_pb2.OperatorSnapshot(
            uid=operator.uid,
            name=operator.name,
            depth=operator.depth,
            parallelism=operator.parallelism,
            max_parallelism=operator.max_parallelism,
            states=operator.states,
            ranges=[written for written in ranges if written.operator_uid == operator.uid],
        )
        for operator in sorted(plan.operators, key=lambda operator: operator.uid)
    ]
    native = any(written.format == checkpoint_pb2.ROCKSDB for written in ranges)
    return checkpoint_pb2.CheckpointMetadata(
        format_version=FORMAT_VERSION,
        checkpoint_id=checkpoint_id,
        job_id=plan.query_id,
        job_name=plan.job_name,
        version=plan.version,
        commit_time_ms=plan.commit_time_ms,
        watermark_ms=clocks.watermark_ms,
        triggered_at_ms=triggered_at_ms,
        duration_ms=duration_ms,
        offsets_digest=clocks.offsets_digest,
        run_epoch=run_epoch,
        savepoint=checkpoint_id == 0,
        backend="rocksdb" if native else "heap",
        operators=operators,
        complete_since_batch=plan.complete_since,
        registrations=registrations,
        timeline=timeline,
        progress=progress,
    )


def size_bytes(metadata: CheckpointMetadata) -> int:
    """Of all files it names and what it has inlined."""
    return sum(len(file.inlined) if not file.path else file.size_bytes for file in _files(metadata))


def new_bytes(metadata: CheckpointMetadata) -> int:
    """Of what was written for it."""
    return sum(written.new_bytes for op in metadata.operators for written in op.ranges)


def check_files(
    metadata: CheckpointMetadata, storage: CheckpointStorage, target: SnapshotTarget
) -> None:
    """CheckpointError unless every file that is named is where it is named, in its size.

    A server that takes a shared file for stored which is not would else make a checkpoint that
    cannot be read.
    """
    folders = {target.directory, target.shared_directory} - {""} or {""}
    there = {
        f"{folder}/{entry.path}" if folder else entry.path: entry.size_bytes
        for folder in folders
        for entry in storage.walk(join(target.root, folder) if folder else target.root)
    }
    for file in _files(metadata):
        if file.path and there.get(file.path) != file.size_bytes:
            found = there.get(file.path)
            raise CheckpointError(
                f"{join(target.root, file.path)} should have {file.size_bytes} bytes and "
                + ("is not there" if found is None else f"has {found}")
                + ": something else removes or changes files of the checkpoint directory"
            )


def shared_files(checkpoints: Sequence[CheckpointMetadata], folder: str) -> set[str]:
    """Names of the files in the shared folder that any of these checkpoints names."""
    prefix = f"{folder}/"
    return {
        file.path.removeprefix(prefix)
        for metadata in checkpoints
        for file in _files(metadata)
        if file.path.startswith(prefix)
    }


def _files(metadata: CheckpointMetadata) -> Iterator[checkpoint_pb2.StoredFile]:
    for operator in metadata.operators:
        for written in operator.ranges:
            yield from written.files
