"""Start of queries from savepoints: reads, checks and seeds."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.server.checkpoint.state_root import StateRoot
from queryable_state.server.coordinator.model.registrations import operator_label
from queryable_state.server.coordinator.model.state_evolution import check_evolution
from queryable_state.streaming.spark.savepoints.query_sources import SOURCES
from queryable_state.streaming.spark.savepoints.savepoint import Savepoint
from queryable_state.streaming.spark.savepoints.seeding import seed, seeded
from queryable_state.streaming.spark.savepoints.source_offsets import (
    check_unrecorded,
    moved_sources,
)
from queryable_state.streaming.spark.savepoints.spark_files import SparkFiles
from queryable_state.wire.errors import (
    CheckpointError,
    CorruptDataError,
    JobError,
    RestoreMismatchError,
)

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterable, Sequence

    from pyspark import SparkContext

    from queryable_state.internal.v1.checkpoint_pb2 import CheckpointMetadata, OperatorSnapshot
    from queryable_state.server.coordinator import Coordinator
    from queryable_state.server.coordinator.model.job_config import JobConfig
    from queryable_state.streaming.spark.declarations import OperatorDeclaration
    from queryable_state.streaming.spark.savepoints.query_sources import QuerySource


_log = logging.getLogger("queryable_state.streaming")


def check_fits(
    savepoint: Savepoint,
    operators: Sequence[OperatorDeclaration],
    *,
    allow_non_restored_state: bool,
) -> None:
    """Raises RestoreMismatchError if the job cannot start from the savepoint.

    Operators that are not in the savepoint start empty. State of operators that the job does not
    have is not restored if `allow_non_restored_state`, else it is an error.
    """
    stored = {operator.uid: operator for operator in savepoint.metadata.operators}
    known = {operator.uid: operator for operator in operators}
    where = f"{savepoint.label} of job {savepoint.metadata.job_name!r}"
    if stored and not stored.keys() & known.keys():
        raise RestoreMismatchError(
            f"{where} has state of the operators {_labels(stored.values())}, but the job has the "
            f"operators {_declared(operators)}: they share no uid. Check that the savepoint is of "
            "this job; a renamed operator keeps its state only if it keeps its uid"
        )
    gone = [operator for uid, operator in stored.items() if uid not in known]
    if gone and not allow_non_restored_state:
        raise RestoreMismatchError(
            f"{where} has state of operators that the job does not have: {_labels(gone)}. Add "
            "operators with these uids, or start with allow_non_restored_state=True, which does "
            "not restore their state"
        )
    for uid, operator in known.items():
        if uid in stored:
            _check_operator(where, stored[uid], operator)


def _check_operator(where: str, stored: OperatorSnapshot, operator: OperatorDeclaration) -> None:
    if stored.max_parallelism != operator.max_parallelism:
        raise RestoreMismatchError(
            f"operator {operator.label} has max parallelism {operator.max_parallelism}, but "
            f"{stored.max_parallelism} in {where}, which is fixed for the lifetime of a state: set "
            f"max_parallelism to {stored.max_parallelism}"
        )
    before = {state.state_name: state for state in stored.states}
    for state in operator.states or ():
        if state.state_name in before:
            label = f"state {state.state_name!r} of operator {operator.label}"
            try:
                check_evolution(before[state.state_name], state, label)
            except JobError as problem:
                raise RestoreMismatchError(f"{where} does not fit the job: {problem}") from problem


def _labels(operators: Iterable[OperatorSnapshot]) -> str:
    return ", ".join(operator_label(operator.uid, operator.name) for operator in operators)


def _declared(operators: Sequence[OperatorDeclaration]) -> str:
    return ", ".join(operator.label for operator in operators) or "none"


def non_restored(metadata: CheckpointMetadata, uids: Iterable[str]) -> list[str]:
    """Uids of the operators whose state is not restored."""
    known = set(uids)
    return [operator.uid for operator in metadata.operators if operator.uid not in known]


@dataclass(frozen=True, kw_only=True)
class SavepointStart:
    """A savepoint, and the application in which a query starts from it."""

    context: SparkContext
    coordinator: Coordinator
    config: JobConfig
    savepoint: str
    allow_non_restored_state: bool

    def seed(
        self,
        location: str,
        root: str,
        *,
        job_name: str,
        operators: Sequence[OperatorDeclaration],
        markers: int,
        sources: Sequence[QuerySource] | None = None,
    ) -> uuid.UUID:
        """Seeds a checkpoint location and a state root from the savepoint; returns the query's id.

        `sources` are those of the query, one per offset; None: they are not known yet, and must be
        those of the savepoint. `markers` is the number of marker sources among them.
        Raises, without writing, if the savepoint is invalid or does not fit the operators, or if
        the location or the root contains other data.
        """
        options = self.config.storage_options
        storage = storage_of(
            root, options, fsync=self.config.fsync, objects=self.coordinator.objects
        )
        files, state_root = SparkFiles.of(self.context, location), StateRoot(root, storage)
        try:
            savepoint = Savepoint.read(self.context, self.savepoint, options)
        except (RestoreMismatchError, CheckpointError, CorruptDataError) as problem:
            query_id = seeded(self.savepoint, files, state_root)
            if query_id is None:
                raise
            # The job may have a checkpoint of its own by now, and then needs this one no more.
            _log.info("query %s was started from %s before: %s", query_id, self.savepoint, problem)
            return query_id
        check_fits(savepoint, operators, allow_non_restored_state=self.allow_non_restored_state)
        moved = None
        if sources is not None:
            where = savepoint.label
            moved = moved_sources(
                savepoint.optional_progress(SOURCES),
                sources,
                where,
                allow_non_restored_state=self.allow_non_restored_state,
            )
            if moved is None:
                offsets = savepoint.progress(f"offsets/{savepoint.version}")
                check_unrecorded(offsets, sources, where)
        left = non_restored(savepoint.metadata, (operator.uid for operator in operators))
        if left:
            _log.warning(
                "state of the operators %s in %s is not restored", ", ".join(left), savepoint.uri
            )
        storage.check_writable(root)
        return seed(
            savepoint,
            files,
            state_root,
            job_name,
            left_behind=left,
            allow_non_restored_state=self.allow_non_restored_state,
            markers=markers,
            sources=moved,
        )
