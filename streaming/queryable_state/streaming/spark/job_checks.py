"""Checks of a job's stored state against its program, before the first batch."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.server.checkpoint.state_root import StateRoot, read_savepoint
from queryable_state.server.coordinator.model.state_evolution import check_evolution
from queryable_state.server.coordinator.roots.stored_states import StoredStates
from queryable_state.streaming.config.state_paths import is_local
from queryable_state.streaming.spark.queries.checkpoint_files import newest_commit
from queryable_state.streaming.spark.savepoints.spark_files import SparkFiles
from queryable_state.streaming.spark.savepoints.stored_query_id import stored_query_id
from queryable_state.streaming.spark.session import runs_on_one_machine
from queryable_state.wire.errors import CheckpointError, RestoreMismatchError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark import SparkContext

    from queryable_state.internal.v1.checkpoint_pb2 import RootRegistrations
    from queryable_state.server.checkpoint.file_systems.storage import ObjectStore
    from queryable_state.server.coordinator.model.job_config import JobConfig
    from queryable_state.streaming.config.state_paths import StatePaths
    from queryable_state.streaming.spark.declarations import OperatorDeclaration

_log = logging.getLogger("queryable_state.streaming")


def check_paths(
    context: SparkContext,
    paths: StatePaths,
    config: JobConfig,
    job_name: str,
    operators: Sequence[OperatorDeclaration],
) -> None:
    """Checks the state root of a job; state in the driver's memory needs no check.

    Raises if the folder is not writable, contains the state of another job, or lacks the state of
    committed batches; and if the operators do not declare the stored states, or declare them with
    other key groups or incompatible types.
    """
    if not paths.root or paths.in_driver or not config.changelog:
        return
    if is_local(paths.root) and not runs_on_one_machine(context):
        _log.warning(
            "state is stored in %s, which the driver and all executors must share: on several "
            "machines use a shared file system or an object store (s3a://...)",
            paths.root,
        )
    storage = storage_of(paths.root, config.storage_options, fsync=config.fsync)
    storage.check_writable(paths.root)
    root = StateRoot(paths.root, storage)
    record = root.registrations()
    assert paths.spark_location is not None
    files = SparkFiles.of(context, paths.spark_location)
    committed = newest_commit(files)
    if record is None:
        if committed >= 0 and not config.allow_missing_state:
            raise CheckpointError(
                f"Spark's checkpoint {files.root} is at batch {committed}, but its state is not in "
                f"{paths.root}: the job would continue with empty state. Restore the folder, "
                "remove both to start from the beginning, or set "
                "spark.queryable_state.allow_missing_state=true to continue without the state"
            )
        return
    _check_same_job(record, files, paths)
    _check_key_groups(record, operators, paths)
    _check_claims(root, record, config, job_name, operators)


def stored_parallelism(
    paths: StatePaths, config: JobConfig, objects: ObjectStore
) -> dict[str, int]:
    """The subtasks of each operator when the state of a root was last stored, by uid.

    They are those of the newest batch, else of the newest checkpoint, else of the savepoint from
    which the root starts. Empty: the root has no state yet. `objects` has the files of a root in
    the driver's memory.
    """
    if not paths.root or not config.changelog:
        return {}
    root = StateRoot(paths.root, storage_of(paths.root, config.storage_options, objects=objects))
    batches = root.batches()
    manifest = root.manifest(batches[-1]) if batches else None
    if manifest is not None and manifest.operators:
        # It has all operators of the query.
        return {each.uid: each.parallelism for each in manifest.operators}
    checkpoints = root.checkpoints()
    record = None if checkpoints else root.registrations()
    if record is not None and record.restored_from:
        storage = storage_of(record.restored_from, config.storage_options, objects=objects)
        checkpoints = [read_savepoint(record.restored_from, storage)]
    return {each.uid: each.parallelism for newest in checkpoints[:1] for each in newest.operators}


def _check_same_job(record: RootRegistrations, files: SparkFiles, paths: StatePaths) -> None:
    stored = stored_query_id(files)
    query_id = None if stored is None else stored.bytes
    if query_id == record.job_id:
        return
    found = "does not exist" if query_id is None else f"belongs to job {query_id.hex()}"
    raise RestoreMismatchError(
        f"{paths.root} has the state of job {record.job_name!r} ({record.job_id.hex()}), but its "
        f"Spark checkpoint {files.root} {found}: restore the checkpoint of the state, remove the "
        "state folder if it is not needed, or give the job another name"
    )


def _check_key_groups(
    record: RootRegistrations, operators: Sequence[OperatorDeclaration], paths: StatePaths
) -> None:
    max_parallelisms = {operator.uid: operator.max_parallelism for operator in operators}
    for state in record.states:
        wanted = max_parallelisms.get(state.operator_uid)
        if wanted is not None and wanted != state.max_parallelism:
            raise RestoreMismatchError(
                f"operator {state.operator_uid!r} has max parallelism {wanted}, but its state in "
                f"{paths.root} was stored with {state.max_parallelism}, which is fixed for the "
                f"lifetime of a state: call set_max_parallelism({state.max_parallelism})"
            )


def _check_claims(
    root: StateRoot,
    record: RootRegistrations,
    config: JobConfig,
    job_name: str,
    operators: Sequence[OperatorDeclaration],
) -> None:
    """Runs the checks of the coordinator's first batch that need only files and declarations."""
    if not config.allow_non_restored_state:
        checkpoints = root.checkpoints()
        after = checkpoints[0].version if checkpoints else record.first_batch - 1
        stored = StoredStates.of(root.uri, record, checkpoints, root.manifests(after), None)
        stored.check_operators({o.uid: o.name for o in operators}, repr(job_name), allow=False)
        for operator in operators:
            if operator.states is not None:
                stored.check_states(operator.uid, operator.label, operator.states, allow=False)
    known = {(state.operator_uid, state.state_name): state for state in record.states}
    for operator in operators:
        for state in operator.states or ():
            before = known.get((operator.uid, state.state_name))
            if before is not None:
                where = f"state {state.state_name!r} of operator {operator.label}"
                check_evolution(before, state, where)
