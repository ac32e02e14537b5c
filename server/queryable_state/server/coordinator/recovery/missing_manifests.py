"""Manifests that a crash left unwritten, made from the changelogs of their batch."""

from __future__ import annotations

import logging
from itertools import groupby
from typing import TYPE_CHECKING

from queryable_state.internal.v1.checkpoint_pb2 import Manifest
from queryable_state.server.checkpoint.layout import batch_folder, quote
from queryable_state.server.coordinator.batches.manifests import (
    FORMAT_VERSION,
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
from queryable_state.wire.errors import CheckpointError, QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from queryable_state.internal.v1.checkpoint_pb2 import (
        BatchOperator,
        ChangelogFile,
        OperatorSnapshot,
    )
    from queryable_state.server.coordinator.model.engine import BatchClocks, Engine
    from queryable_state.server.coordinator.model.run import RunStart
    from queryable_state.server.coordinator.roots.job_roots import JobRoot

_log = logging.getLogger(__name__)

_SHOWN = 10


class MissingManifests:
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
        format_version=FORMAT_VERSION,
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
