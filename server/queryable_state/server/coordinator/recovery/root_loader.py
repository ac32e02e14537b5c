"""Loader of a job's root, which refuses a root that the job cannot continue from.

A crash may have left manifests of committed batches unwritten: they are made from the changelogs.
"""

from __future__ import annotations

import logging
import time
from itertools import groupby
from typing import TYPE_CHECKING

from queryable_state.internal.v1.checkpoint_pb2 import Manifest, RootRegistrations
from queryable_state.server.checkpoint import layout
from queryable_state.server.checkpoint.file_systems.storage import join
from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.server.checkpoint.layout import batch_folder, quote
from queryable_state.server.checkpoint.root_verification import missing_registrations
from queryable_state.server.checkpoint.state_root import read_savepoint
from queryable_state.server.checkpoint.timelines import from_savepoint, set_back, timeline_of
from queryable_state.server.coordinator.batches.manifests import (
    MANIFEST_VERSION,
    batch_operators,
    list_committed,
    sealed_operators,
    uncovered_key_groups,
)
from queryable_state.server.coordinator.batches.run_operators import (
    IncompleteBatchError,
    LostBatchError,
)
from queryable_state.server.coordinator.model.operators import OperatorLayout
from queryable_state.wire.errors import (
    CheckpointError,
    JobError,
    QueryableStateError,
    RestoreMismatchError,
    SupersededError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Sequence

    from queryable_state.internal.v1.checkpoint_pb2 import (
        BatchOperator,
        ChangelogFile,
        CheckpointMetadata,
        OperatorSnapshot,
    )
    from queryable_state.server.checkpoint.state_root import StateRoot
    from queryable_state.server.coordinator.model.engine import BatchClocks, Engine
    from queryable_state.server.coordinator.model.job_config import JobConfig
    from queryable_state.server.coordinator.model.run import RunStart
    from queryable_state.server.coordinator.roots.job_roots import JobRoot

_log = logging.getLogger(__name__)


_REGISTRATIONS_VERSION = 1
_SHOWN = 10


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
        self._manifests = _MissingManifests(engine, strict=strict)

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
        format_version=_REGISTRATIONS_VERSION,
        job_id=job_root.query_id,
        job_name=job_name,
        first_batch=batch_id,
    )


class _MissingManifests:
    """Completes the manifests of a root that a run goes on from. Blocking.

    A driver can die between the engine's commit of a batch and the manifest. The batch consists of
    its changelogs then, if every operator that had input has one for each of its key groups. If
    not, files of the batch are lost, or an operator missed it. The newest batch runs again. An
    older batch had a manifest before the next one began: files of it are lost.
    """

    def __init__(self, engine: Engine, *, strict: bool) -> None:
        self._engine = engine
        self._strict = strict

    def complete(self, root: JobRoot, job_name: str, up_to: int, start: RunStart | None) -> None:
        """Writes the manifests that are missing since the newest checkpoint, up to a batch.

        `start` is that of the run that goes on, None if it is unknown. Raises IncompleteBatchError
        if an operator missed the newest batch and this run committed it, LostBatchError if an
        earlier run did, CheckpointError if changelogs of an older batch are missing.
        """
        operators = () if start is None else start.operators
        checkpoints = root.checkpoints()
        base = checkpoints[0].version if checkpoints else root.first_batch - 1
        have = {manifest.batch_id for manifest in root.manifests(base, up_to)}
        missing = [batch for batch in range(base + 1, up_to + 1) if batch not in have]
        lost: list[str] = []
        first_lost = up_to
        made: list[Manifest] = []
        for batch in missing:
            clocks = self._clocks(root, batch)
            manifest = _made(root, batch, clocks, made)
            expected = _expected(root, batch, operators, made)
            manifest.operators.extend(batch_operators(expected))
            if batch == up_to and clocks.clock_ids:
                # In a batch that the marker planned, all of them ran, and timers may have fired.
                # One that did not run loses nothing, but then the batch can run again.
                sealed = {operator.uid for operator in expected}
            else:
                sealed = set(_sealed(root, batch))
            gaps = self._gaps(root, batch, manifest.changelogs, expected, sealed)
            if gaps and batch == up_to and not (lost or root.config.allow_missing_state):
                if self._strict and (start is None or batch <= start.after):
                    lacks = f"job {job_name!r}: {root.uri} lacks changelogs of it ({_shown(gaps)})"
                    raise LostBatchError.of(batch, lacks, _left(root, batch - 1))
                error = IncompleteBatchError.of(
                    batch,
                    f"job {job_name!r}, {gaps[0]}",
                    f"{root.uri} has no changelog of all its key groups",
                )
                if self._strict:
                    raise error
                _log.error("%s: %s", error.reason_name, error)
            else:
                first_lost = first_lost if lost or not gaps else batch
                lost += (f"batch {batch}, {gap}" for gap in gaps)
            made.append(manifest)
        if lost:
            self._refuse(root, lost, _left(root, first_lost - 1))
        for manifest in made:
            files = len(manifest.changelogs)
            _log.info("batch %d: its manifest is made of %d changelogs", manifest.batch_id, files)
            root.write_manifest(manifest)

    def _gaps(
        self,
        root: JobRoot,
        batch: int,
        files: Sequence[ChangelogFile],
        expected: Iterable[OperatorLayout],
        sealed: Container[str],
    ) -> list[str]:
        """Text naming the operators that lack changelogs of a batch, and which.

        These are operators that had input, and those in `sealed`, which had changelogs.
        """
        return [
            f"operator {operator.uid!r}: {_folders(batch, operator, missing)}"
            for operator in expected
            if (missing := uncovered_key_groups(files, operator))
            and (
                operator.uid in sealed
                or self._engine.has_input(root.query_id, batch, operator.sources)
            )
        ]

    def _clocks(self, root: JobRoot, batch: int) -> BatchClocks:
        try:
            return self._engine.clocks(root.query_id, batch)
        except QueryableStateError as failure:
            raise CheckpointError(
                f"{root.uri} has no manifest of batch {batch}, and which changelogs are the batch "
                f"cannot be told without Spark's offsets: {failure}"
            ) from failure

    def _refuse(self, root: JobRoot, lost: Sequence[str], left: str) -> None:
        broken = "; ".join(f"{b.path}: {b.problem}" for b in root.root.broken_checkpoints())
        text = (
            f"{root.uri} lacks changelogs of batches that are committed in Spark's commits/ "
            f"({_shown(lost)}): their state is lost from the root. {left}"
            + (f"; not usable are {broken}" if broken else "")
        )
        if not root.config.allow_missing_state:
            raise CheckpointError(
                f"{text}: bring the files back from a copy of the root, start the job from a "
                "savepoint, or allow missing state "
                "(spark.queryable_state.allow_missing_state=true) to go on without these records"
            )
        _log.error("%s: the query goes on without these records, as it is allowed to", text)


def _made(root: JobRoot, batch: int, clocks: BatchClocks, made: Sequence[Manifest]) -> Manifest:
    """The manifest of a batch, made from the existing changelogs; without its operators."""
    before = made[-1] if made and made[-1].batch_id == batch - 1 else root.manifest(batch - 1)
    return Manifest(
        format_version=MANIFEST_VERSION,
        batch_id=batch,
        run_epoch=root.epoch,
        offsets_digest=clocks.offsets_digest,
        watermark_ms=clocks.watermark_ms,
        changelogs=list_committed(root, batch, clocks.offsets_digest),
        registrations=root.registrations_name,
        sealed_before=sealed_operators(before),
    )


def _sealed(root: JobRoot, batch: int) -> Sequence[str]:
    """The operators that had changelogs of a batch, as the manifest of the next batch tells."""
    after = root.manifest(batch + 1)
    return () if after is None else after.sealed_before


def _shown(texts: Sequence[str]) -> str:
    return "; ".join(texts[:_SHOWN]) + ("; ..." if len(texts) > _SHOWN else "")


def _folders(batch: int, operator: OperatorLayout, missing: Sequence[int]) -> str:
    """The folder of an operator's changelogs of a batch, and the key groups it has no file of."""
    folder = f"{batch_folder(batch)}/{quote(operator.uid)}"
    if len(missing) == operator.max_parallelism:
        return folder
    runs = [
        [group for _, group in run]
        for _, run in groupby(enumerate(missing), lambda each: each[1] - each[0])
    ]
    return f"{folder} (key groups {', '.join(f'{run[0]}-{run[-1]}' for run in runs)})"


def _left(root: JobRoot, complete_to: int) -> str:
    """Text naming the newest complete batch of a root, and the copy from which it is restored."""
    checkpoints = root.checkpoints()
    if checkpoints:
        newest = checkpoints[0]
        copy = f"checkpoint {newest.checkpoint_id} as of batch {newest.version}"
    elif root.registrations.restored_from:
        copy = f"the savepoint {root.registrations.restored_from}"
    elif complete_to < root.first_batch:
        return f"No batch before {root.first_batch} has state in the root"
    else:
        copy = f"the changelogs since batch {root.first_batch}"
    return f"The newest complete batch is {complete_to}, which can be restored from {copy}"


def _expected(
    root: JobRoot, batch: int, operators: Sequence[OperatorLayout], made: Sequence[Manifest]
) -> list[OperatorLayout]:
    """The operators a batch must have changelogs of: those of the batch before, and those of the
    run that the root has registered since."""
    known = {layout.uid: layout for layout in operators}
    before = made[-1:] or root.manifests(batch - 2, batch - 1)
    newest = next((c for c in root.checkpoints() if c.version < batch), None)
    stored: Iterable[BatchOperator | OperatorSnapshot] = ()
    if before and before[0].batch_id == batch - 1:
        stored = before[0].operators
    elif newest is not None:
        stored = newest.operators
    expected = {each.uid: each for each in stored}
    registered = {state.operator_uid for state in root.registrations.states}
    return [
        known.get(uid)
        or OperatorLayout(
            uid=uid, parallelism=each.parallelism, max_parallelism=each.max_parallelism
        )
        for uid, each in expected.items()
    ] + [layout for uid, layout in known.items() if uid not in expected and uid in registered]
