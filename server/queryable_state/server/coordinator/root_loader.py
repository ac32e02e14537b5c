"""Reads the root of a job that begins, and refuses one the job cannot go on from."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from queryable_state.internal.v1.checkpoint_pb2 import Manifest, RootRegistrations
from queryable_state.server.checkpoint.changelog_folder import choose_committed
from queryable_state.server.checkpoint.state_root import read_savepoint
from queryable_state.server.checkpoint.storage import storage_of
from queryable_state.server.coordinator.root_rewind import rewind
from queryable_state.wire.errors import CheckpointError, QueryableStateError, RestoreMismatchError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.internal.v1.checkpoint_pb2 import CheckpointMetadata
    from queryable_state.server.checkpoint.state_root import StateRoot
    from queryable_state.server.coordinator.engine import Engine
    from queryable_state.server.coordinator.job_config import JobConfig
    from queryable_state.server.coordinator.job_roots import JobRoot

_log = logging.getLogger(__name__)

FORMAT_VERSION = 1

# Between Spark's commit of a batch and its manifest the driver can die: a batch that changed
# nothing then leaves no trace. One batch is taken for such a one, because the next one waits for
# the manifest. Of several in which no task ran, that do not wait, one cannot tell that no file of
# them is lost: the user says so.
_TRACELESS = 1
_SHOWN = 10


class RootLoader:
    """Loads roots; writes what a crash has left unwritten. Blocking, usable from every thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def check(self, root: StateRoot, query_id: bytes, job_name: str) -> None:
        """RestoreMismatchError where the root is of another job; to be asked before a run takes
        an epoch in it, which would end the run of that job."""
        record = root.registrations()
        if record is not None:
            _check_same_job(record, root, query_id, job_name)

    def load(self, job_root: JobRoot, job_name: str, batch_id: int, *, complete_to: int) -> JobRoot:
        """Fills in what the root has for a run that begins at a batch.

        All before the batch is there, or was never made; batches up to `complete_to` have their
        manifests. CheckpointError where state is missing or unreadable, RestoreMismatchError
        where it is of another job, SupersededError where another driver runs it.
        """
        root, config = job_root.root, job_root.config
        record = root.registrations()
        new = record is None
        if record is None:
            record = _new_record(job_root, job_name, batch_id)
        else:
            _check_same_job(record, root, job_root.query_id, job_name)
        checkpoints = (
            []
            if new
            else rewind(
                root,
                record,
                batch_id,
                lambda batch: self._engine.is_committed(job_root.query_id, batch),
            )
        )
        savepoint = None
        if record.restored_from:
            savepoint = _savepoint(record, config, required=not checkpoints)
        if batch_id < record.first_batch and savepoint is not None:
            raise RestoreMismatchError(
                f"{root.uri} starts from a savepoint as of batch {savepoint.version}, and query "
                f"{job_name!r} begins at batch {batch_id}: start it with the Spark checkpoint that "
                "belongs to the savepoint"
            )
        manifests = root.manifests(_oldest(record, checkpoints))
        job_root.fill(record, checkpoints, manifests, savepoint)
        if new:
            job_root.write_registrations(record)
        self._complete(job_root, complete_to)
        return job_root

    def _complete(self, job_root: JobRoot, up_to: int) -> None:
        """Sees to it that every batch since the newest checkpoint has its manifest."""
        checkpoints = job_root.checkpoints()
        base = checkpoints[0].version if checkpoints else job_root.first_batch - 1
        have = {manifest.batch_id for manifest in job_root.manifests(base, up_to)}
        missing = [batch for batch in range(base + 1, up_to + 1) if batch not in have]
        if not missing:
            return
        folders = set(job_root.root.batches())
        newest = max(have, default=base)
        lost = [
            batch
            for batch in missing
            if batch not in folders and not newest < batch <= newest + _TRACELESS
        ]
        if lost:
            _refuse(job_root, base, lost)
        for batch in missing:
            self._write_missing(job_root, batch, listed=batch in folders)

    def _write_missing(self, job_root: JobRoot, batch: int, *, listed: bool) -> None:
        manifest = Manifest(format_version=FORMAT_VERSION, batch_id=batch, run_epoch=job_root.epoch)
        if listed:
            try:
                clocks = self._engine.clocks(job_root.query_id, batch)
            except QueryableStateError as failure:
                raise CheckpointError(
                    f"{job_root.uri} has changelogs of batch {batch} and no manifest of it, and "
                    f"which of them count cannot be told without Spark's offsets: {failure}"
                ) from failure
            manifest.offsets_digest = clocks.offsets_digest
            manifest.watermark_ms = clocks.watermark_ms
            files = choose_committed(
                job_root.storage,
                job_root.uri,
                batch,
                clocks.offsets_digest,
                allow_missing=job_root.config.allow_missing_state,
            )
            manifest.changelogs.extend(files)
        _log.info(
            "batch %d: its manifest is made of the %d changelogs found",
            batch,
            len(manifest.changelogs),
        )
        job_root.write_manifest(manifest)


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
                f"{missing}: bring the folder back, start the query anew with an empty checkpoint "
                "location, or allow missing state to go on without what was stored"
            )
        _log.error("%s: it goes on without what was stored, as it is allowed to", missing)
    return RootRegistrations(
        format_version=FORMAT_VERSION,
        job_id=job_root.query_id,
        job_name=job_name,
        first_batch=batch_id,
    )


def _refuse(job_root: JobRoot, base: int, lost: Sequence[int]) -> None:
    shown = ", ".join(map(str, lost[:_SHOWN])) + (" ..." if len(lost) > _SHOWN else "")
    broken = "; ".join(f"{b.path}: {b.problem}" for b in job_root.root.broken_checkpoints())
    text = (
        f"{job_root.uri} has no changelog of {len(lost)} batches the query has committed ({shown}) "
        f"since its newest usable copy, which is as of batch {base}"
        + (f"; not usable are {broken}" if broken else "")
    )
    if not job_root.config.allow_missing_state:
        raise CheckpointError(
            f"{text}: bring the files back, or allow missing state to go on without them, which "
            "loses nothing where no stateful operator ran in these batches (foreachBatch that "
            "passed them over just before the driver ended)"
        )
    _log.error("%s: the query goes on without them, as it is allowed to", text)
