"""Savepoints of a running job, with PyFlink's names."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from queryable_state.streaming.config.state_paths import absolute
from queryable_state.streaming.execution.job_result import CompletableFuture
from queryable_state.wire.errors import InvalidRequestError, Reason

if TYPE_CHECKING:
    from queryable_state.server.coordinator.model.job_config import JobConfig
    from queryable_state.streaming.job_runs import JobRuns
    from queryable_state.streaming.spark.application import SparkApplication

_SAVEPOINT_TIMEOUT_S = 600.0


class JobSavepoints:
    """The methods of a JobClient that take savepoints. Usable from every thread."""

    def __init__(
        self, application: SparkApplication, name: str, runs: JobRuns, config: JobConfig
    ) -> None:
        self._application = application
        self._name = name
        self._runs = runs
        self._config = config
        self._query_id = uuid.UUID(str(runs.query.id)).bytes
        self._cancelled = False

    def trigger_savepoint(
        self, savepoint_directory: str | None = None, *, timeout_s: float = _SAVEPOINT_TIMEOUT_S
    ) -> CompletableFuture[str]:
        """Takes a savepoint while the job runs; a future of its URI.

        Its folder is created under `savepoint_directory`; None or empty: `state.savepoints.dir`.
        """
        return CompletableFuture.of(
            lambda: self._savepoint(savepoint_directory, timeout_s, stop=False),
            f"savepoint-{self._name}",
        )

    def stop_with_savepoint(
        self,
        advance_to_end_of_event_time: bool,
        savepoint_directory: str | None = None,
        *,
        timeout_s: float = _SAVEPOINT_TIMEOUT_S,
    ) -> CompletableFuture[str]:
        """Stops the job and takes a savepoint of its last batch; a future of the savepoint's URI.

        `advance_to_end_of_event_time` must be False: Spark takes the watermark from the data.
        """
        if not isinstance(advance_to_end_of_event_time, bool):
            raise InvalidRequestError(
                "stop_with_savepoint takes advance_to_end_of_event_time first, True or False, and "
                f"then the directory, not {advance_to_end_of_event_time!r}"
            )
        if advance_to_end_of_event_time:
            raise InvalidRequestError(
                "stop_with_savepoint(True): Spark takes the watermark from the data, so the job "
                "cannot be advanced to the end of event time: pass False",
                reason=Reason.UNSUPPORTED,
            )
        return CompletableFuture.of(
            lambda: self._savepoint(savepoint_directory, timeout_s, stop=True),
            f"savepoint-{self._name}",
        )

    def cancel_with_savepoint(
        self, savepoint_directory: str | None = None, *, timeout_s: float = _SAVEPOINT_TIMEOUT_S
    ) -> CompletableFuture[str]:
        """Takes a savepoint and cancels the job; a future of the savepoint's URI."""

        def run() -> str:
            uri = self._savepoint(savepoint_directory, timeout_s, stop=True)
            self._cancelled = True
            self._delete_cancelled()
            return uri

        return CompletableFuture.of(run, f"savepoint-{self._name}")

    def _savepoint(self, directory: str | None, timeout_s: float, *, stop: bool) -> str:
        where = absolute(directory) if directory else ""
        uri, _ = self._application.coordinator.trigger_savepoint(
            self._query_id.hex(), where, stop=stop, timeout_s=timeout_s
        )
        if stop:
            self._runs.cancel()
        return uri

    def _delete_cancelled(self) -> None:
        if self._config.delete_on_cancellation:
            self._application.coordinator.job_cancelled(self._query_id)
