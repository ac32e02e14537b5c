"""What can be known to go wrong with a job's state before its first batch: said before data is at
risk."""

from __future__ import annotations

import json
import logging
import uuid
from typing import TYPE_CHECKING

from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.server.checkpoint.state_root import StateRoot
from queryable_state.server.coordinator.model.state_evolution import check_evolution
from queryable_state.server.coordinator.roots.stored_states import StoredStates
from queryable_state.streaming.config.state_paths import is_local
from queryable_state.streaming.spark.queries.checkpoint_files import newest_commit
from queryable_state.streaming.spark.session import runs_on_one_machine
from queryable_state.streaming.spark.spark_files import SparkFiles
from queryable_state.wire.errors import CheckpointError, CorruptDataError, RestoreMismatchError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark import SparkContext

    from queryable_state.internal.v1.checkpoint_pb2 import RootRegistrations
    from queryable_state.server.coordinator.model.job_config import JobConfig
    from queryable_state.streaming.config.state_paths import StatePaths
    from queryable_state.streaming.spark.declarations import OperatorDeclaration

_log = logging.getLogger("queryable_state.streaming")


def check_place(
    context: SparkContext,
    place: StatePaths,
    config: JobConfig,
    job_name: str,
    operators: Sequence[OperatorDeclaration],
) -> None:
    """Refuses a place whose folder cannot be written, or that another job's state is in, or from
    which the state is missing; and operators that do not claim what is stored there, or claim it
    with other key groups or types.

    State in the driver's memory, and a job without a place, have nothing to check.
    """
    if not place.root or place.in_driver or not config.changelog:
        return
    if is_local(place.root) and not runs_on_one_machine(context):
        _log.warning(
            "state is kept in %s, which must be one folder for the driver and all executors: on "
            "several machines it has to be a shared file system, or a URI of one (s3a://...)",
            place.root,
        )
    storage = storage_of(place.root, config.storage_options, fsync=config.fsync)
    storage.check_writable(place.root)
    root = StateRoot(place.root, storage)
    record = root.registrations()
    assert place.spark_location is not None
    files = SparkFiles.of(context, place.spark_location)
    committed = newest_commit(files)
    if record is None:
        if committed >= 0 and not config.allow_missing_state:
            raise CheckpointError(
                f"Spark's checkpoint {files.root} is at batch {committed}, and its state is not in "
                f"{place.root}: the job would go on as if nothing had been counted before. Bring "
                "the folder back, remove both to start anew, or set "
                "spark.queryable_state.allow_missing_state=true to go on without the state"
            )
        return
    _check_same_job(record, files, place)
    _check_key_groups(record, operators, place)
    _check_claims(root, record, config, job_name, operators)


def query_id_of(files: SparkFiles) -> bytes | None:
    """Id of the query a checkpoint of Spark's belongs to; None: it has none yet."""
    content = files.read("metadata")
    if content is None:
        return None
    try:
        return uuid.UUID(json.loads(content)["id"]).bytes
    except (KeyError, ValueError, TypeError) as problem:
        raise CorruptDataError(
            f"{files.root}/metadata has no id of a query as Spark writes it: {problem!r}"
        ) from problem


def _check_same_job(record: RootRegistrations, files: SparkFiles, place: StatePaths) -> None:
    query_id = query_id_of(files)
    if query_id == record.job_id:
        return
    found = "is not there" if query_id is None else f"is of job {query_id.hex()}"
    raise RestoreMismatchError(
        f"{place.root} has the state of job {record.job_name!r} ({record.job_id.hex()}), and the "
        f"Spark checkpoint to go on from, {files.root}, {found}: bring back the one that belongs "
        "to the state, remove the state folder if it is not needed, or give the job another name"
    )


def _check_key_groups(
    record: RootRegistrations, operators: Sequence[OperatorDeclaration], place: StatePaths
) -> None:
    max_parallelisms = {operator.uid: operator.max_parallelism for operator in operators}
    for state in record.states:
        wanted = max_parallelisms.get(state.operator_uid)
        if wanted is not None and wanted != state.max_parallelism:
            raise RestoreMismatchError(
                f"operator {state.operator_uid!r} has max parallelism {wanted}, and its state in "
                f"{place.root} was kept by {state.max_parallelism}, which is fixed for the life of "
                f"a state: set_max_parallelism({state.max_parallelism})"
            )


def _check_claims(
    root: StateRoot,
    record: RootRegistrations,
    config: JobConfig,
    job_name: str,
    operators: Sequence[OperatorDeclaration],
) -> None:
    """What the coordinator will refuse of the first batch, as far as files and driver tell."""
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
