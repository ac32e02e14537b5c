"""Loader of a job's root, which refuses a root that the job cannot continue from."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from queryable_state.internal.v1.checkpoint_pb2 import RootRegistrations
from queryable_state.server.checkpoint import layout
from queryable_state.server.checkpoint.file_systems.storage import join
from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.server.checkpoint.root_verification import missing_registrations
from queryable_state.server.checkpoint.state_root import read_savepoint
from queryable_state.server.checkpoint.timelines import from_savepoint, set_back, timeline_of
from queryable_state.server.coordinator.recovery.missing_manifests import MissingManifests
from queryable_state.wire.errors import (
    CheckpointError,
    JobError,
    QueryableStateError,
    RestoreMismatchError,
    SupersededError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from queryable_state.internal.v1.checkpoint_pb2 import CheckpointMetadata, Manifest
    from queryable_state.server.checkpoint.state_root import StateRoot
    from queryable_state.server.coordinator.model.engine import Engine
    from queryable_state.server.coordinator.model.job_config import JobConfig
    from queryable_state.server.coordinator.model.run import RunStart
    from queryable_state.server.coordinator.roots.job_roots import JobRoot


_log = logging.getLogger(__name__)

FORMAT_VERSION = 1


def rewind(
    root: StateRoot,
    record: RootRegistrations,
    batch_id: int,
    is_committed: Callable[[int], bool],
    end_timeline: Callable[[int], None],
) -> list[CheckpointMetadata]:
    """The checkpoints a run that begins at a batch can go on from, newest first.

    Where the root is past the batch, what it has of later batches is removed: they will be other
    batches. Changelogs of the batch itself stay: those made of the same offsets still count.
    `end_timeline` is called before, with the newest batch that the root has.
    JobError, and nothing removed, where what was before the batch is not there any more.
    SupersededError, and nothing removed, where the engine has the batch committed: then nobody
    set it back, and another driver has gone on since this run looked where to begin.
    """
    checkpoints = [c for c in root.checkpoints() if c.version >= record.first_batch - 1]
    usable = [c for c in checkpoints if c.version < batch_id]
    batches = [batch for batch in root.batches() if batch >= batch_id]
    committed = [batch for batch in batches if root.has_manifest(batch)]
    later = [c for c in checkpoints if c.version >= batch_id]
    if not later and not committed:
        return usable
    newest = max([*committed, *(c.version for c in later)])
    # Asked after the root was read: whoever wrote a manifest there had seen the commit.
    if is_committed(batch_id):
        raise SupersededError(
            f"the query begins at batch {batch_id}, and its state in {root.uri} is at {newest}, as "
            "its checkpoint is by now: another driver runs the same query; end one of the two"
        )
    if (later and not usable) or batch_id < record.first_batch:
        raise JobError(
            f"the query begins again at batch {batch_id}, and its state in {root.uri} is at "
            f"{newest} and reaches back to {_reach(record, later, checkpoints)}: its checkpoint "
            "was set back further than the state can follow; start it as a new query, from a "
            "checkpoint location of its own, or from a savepoint"
        )
    _log.warning(
        "the query begins again at batch %d, and its state in %s is at %d: the state follows, and "
        "what is stored of batches %d to %d is removed",
        batch_id,
        root.uri,
        newest,
        batch_id,
        newest,
    )
    end_timeline(newest)
    for metadata in sorted(later, key=lambda c: c.version, reverse=True):
        folder = layout.checkpoint_folder(metadata.checkpoint_id)
        # Without its metadata it is none: a crash in between leaves nothing half.
        root.storage.delete(root.path(layout.metadata_file(folder)))
        root.storage.delete_tree(root.path(folder))
    for batch in sorted(batches, reverse=True):
        folder = root.path(layout.batch_folder(batch))
        for name in root.storage.list(folder):
            if layout.manifest_epoch(name) is not None:
                root.storage.delete(join(folder, name))
        if batch > batch_id:
            root.storage.delete_tree(folder)
    return usable


def _reach(
    record: RootRegistrations,
    later: Sequence[CheckpointMetadata],
    checkpoints: Sequence[CheckpointMetadata],
) -> int:
    if not later:
        return record.first_batch
    return min(metadata.version for metadata in checkpoints) + 1


class RootLoader:
    """Loads roots, and writes manifests that a crash left unwritten. Blocking, thread-safe."""

    def __init__(self, engine: Engine, *, strict: bool) -> None:
        """Unless `strict`, batches that an operator missed are accepted."""
        self._engine = engine
        self._manifests = MissingManifests(engine, strict=strict)

    def check(self, root: StateRoot, query_id: bytes, job_name: str) -> None:
        """Raises RestoreMismatchError if the root is of another job.

        Called before a run takes an epoch in the root, which would fence the run of that job.
        """
        record = root.registrations()
        if record is not None:
            _check_same_job(record, root, query_id, job_name)

    def load(
        self,
        job_root: JobRoot,
        job_name: str,
        batch_id: int,
        *,
        complete_to: int,
        start: RunStart | None,
    ) -> JobRoot:
        """Fills in what the root has for a run that begins at a batch.

        Everything before the batch is there; batches up to `complete_to` have their manifests.
        `start` is None if the operators of the run are not known. Raises CheckpointError if state
        is missing or unreadable, LostBatchError if only that of the newest batch is,
        IncompleteBatchError if an operator missed a batch of this run, RestoreMismatchError if
        the root is of another job, SupersededError if another driver runs it.
        """
        root, config = job_root.root, job_root.config
        name, record = root.newest_registrations()
        is_written = record is not None
        checkpoints: list[CheckpointMetadata] = []
        if record is None:
            record = _new_record(job_root, job_name, batch_id)
        else:
            _check_same_job(record, root, job_root.query_id, job_name)
            checkpoints = self._rewound(job_root, record, batch_id)
            name = job_root.registrations_name or name
        savepoint = None
        if record.restored_from:
            savepoint = _savepoint(record, config, required=not checkpoints)
            if savepoint is not None and not record.timeline.id:
                # Recorded now: a savepoint may be removed once a checkpoint replaces it.
                record.timeline.CopyFrom(
                    from_savepoint(job_root.query_id, savepoint, record.restored_from, _now_ms())
                )
                is_written = False
        if batch_id < record.first_batch and savepoint is not None:
            raise RestoreMismatchError(
                f"{root.uri} starts from a savepoint as of batch {savepoint.version}, and query "
                f"{job_name!r} begins at batch {batch_id}: start it with the Spark checkpoint that "
                "belongs to the savepoint"
            )
        manifests = root.manifests(_oldest(record, checkpoints))
        _check_registrations(root, name, [*checkpoints, *manifests])
        job_root.fill((name, record), checkpoints, manifests, savepoint)
        if not is_written:
            job_root.write_registrations(record)
        self._manifests.complete(job_root, job_name, complete_to, start)
        job_root.survey()
        return job_root

    def _rewound(
        self, job_root: JobRoot, record: RootRegistrations, batch_id: int
    ) -> list[CheckpointMetadata]:
        """As `rewind`; records the end of the timeline, in `record` and in the root."""
        root, query_id = job_root.root, job_root.query_id

        def end_timeline(newest: int) -> None:
            first = batch_id + self._is_repeated(job_root, batch_id)
            if first <= newest:
                before = timeline_of(query_id, record.timeline)
                record.timeline.CopyFrom(set_back(before, first, newest, _now_ms()))
                job_root.write_registrations(record)

        def is_committed(batch: int) -> bool:
            return self._engine.is_committed(query_id, batch)

        return rewind(root, record, batch_id, is_committed, end_timeline)

    def _is_repeated(self, job_root: JobRoot, batch_id: int) -> bool:
        """Whether the batch that begins has the offsets of the committed one of its number.

        It is the same batch then: only Spark's commit of it was lost.
        """
        manifest = job_root.root.manifest(batch_id)
        try:
            clocks = self._engine.clocks(job_root.query_id, batch_id)
        except QueryableStateError:
            # An idle job is restored before its next batch has offsets.
            return False
        return manifest is not None and manifest.offsets_digest == clocks.offsets_digest


def _check_same_job(
    record: RootRegistrations, root: StateRoot, query_id: bytes, job_name: str
) -> None:
    if record.job_id != query_id:
        raise RestoreMismatchError(
            f"{root.uri} holds the state of job {record.job_name!r} ({record.job_id.hex()}), "
            f"and query {job_name!r} ({query_id.hex()}) would go on in it: give the "
            "job another name or checkpoint folder, start it with its own Spark checkpoint, or "
            "remove the folder if its state is not needed"
        )


def _check_registrations(
    root: StateRoot,
    name: str,
    named_by: Sequence[CheckpointMetadata | Manifest],
) -> None:
    """Raises CheckpointError if a checkpoint or manifest names registrations that are missing."""
    missing = missing_registrations(root, name, named_by)
    if missing:
        raise CheckpointError(
            f"{missing} is missing, and the newest registrations there are ({name or 'none'}) may "
            "lack states: bring the file back from a copy of the root, or start the job from a "
            "savepoint"
        )


def _savepoint(
    record: RootRegistrations, config: JobConfig, *, required: bool
) -> CheckpointMetadata | None:
    """The savepoint a root started from, without what was left behind in it."""
    uri = record.restored_from
    try:
        savepoint = read_savepoint(uri, storage_of(uri, config.storage_options))
    except QueryableStateError as failure:
        if required:
            raise
        _log.warning("the savepoint the job was started from is not needed, and gone: %s", failure)
        return None
    taken = [o for o in savepoint.operators if o.uid not in record.left_behind]
    del savepoint.operators[:]
    savepoint.operators.extend(taken)
    return savepoint


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _oldest(record: RootRegistrations, checkpoints: Sequence[CheckpointMetadata]) -> int:
    """The version after which manifests are needed."""
    return min((metadata.version for metadata in checkpoints), default=record.first_batch - 1)


def _new_record(job_root: JobRoot, job_name: str, batch_id: int) -> RootRegistrations:
    if batch_id > 0:
        missing = (
            f"query {job_name!r} goes on at batch {batch_id}, and there is no state of it in "
            f"{job_root.uri}"
        )
        if not job_root.config.allow_missing_state:
            raise CheckpointError(
                f"{missing}: bring the folder back, start the query again with an empty checkpoint "
                "location, or allow missing state to go on without what was stored"
            )
        _log.error("%s: it goes on without what was stored, as it is allowed to", missing)
    return RootRegistrations(
        format_version=FORMAT_VERSION,
        job_id=job_root.query_id,
        job_name=job_name,
        first_batch=batch_id,
    )
