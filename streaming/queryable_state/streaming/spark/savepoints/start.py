"""Starts queries from savepoints: read, checked against the job, and seeded."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.server.checkpoint.file_systems.storage import storage_of
from queryable_state.server.checkpoint.state_root import StateRoot
from queryable_state.streaming.spark.savepoints.checks import check_fits, non_restored
from queryable_state.streaming.spark.savepoints.savepoint import Savepoint
from queryable_state.streaming.spark.savepoints.seeding import seed
from queryable_state.streaming.spark.spark_files import SparkFiles

if TYPE_CHECKING:
    import uuid
    from collections.abc import Sequence

    from pyspark import SparkContext

    from queryable_state.server.coordinator import Coordinator
    from queryable_state.server.coordinator.model.job_config import JobConfig
    from queryable_state.streaming.spark.declarations import OperatorDeclaration

_log = logging.getLogger("queryable_state.streaming")


@dataclass(frozen=True, kw_only=True)
class SavepointStart:
    """A savepoint and the application a query is to start from it in."""

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
    ) -> uuid.UUID:
        """Makes the query of a checkpoint location and a state root begin behind the savepoint.

        Answers the query's id. Raises, and nothing is written, where the savepoint is none or
        does not fit the operators, or where another history is there already.
        """
        options = self.config.storage_options
        savepoint = Savepoint.read(self.savepoint, options)
        check_fits(savepoint, operators, allow_non_restored_state=self.allow_non_restored_state)
        left = non_restored(savepoint.metadata, (operator.uid for operator in operators))
        if left:
            _log.warning(
                "state of the operators %s stays behind in %s", ", ".join(left), savepoint.uri
            )
        storage = storage_of(
            root, options, fsync=self.config.fsync, objects=self.coordinator.objects
        )
        storage.check_writable(root)
        files = SparkFiles.of(self.context, location)
        return seed(
            savepoint,
            files,
            StateRoot(root, storage),
            job_name,
            left_behind=left,
            allow_non_restored_state=self.allow_non_restored_state,
        )
