"""The coordinator as the driver uses it: lifecycle, jobs, checkpoints and savepoints."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.server.coordinator.coordinator_parts import CoordinatorParts
from queryable_state.server.coordinator.model.run import RunStart
from queryable_state.server.lease_clock import lease_ms
from queryable_state.wire.errors import QueryableStateError, RetryLaterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from queryable_state.internal.v1.checkpoint_pb2 import CheckpointMetadata
    from queryable_state.server.checkpoint.file_systems.object_storage import MemoryObjectStore
    from queryable_state.server.coordinator.batches.catalog import JobView
    from queryable_state.server.coordinator.checkpoints.history import CheckpointReport
    from queryable_state.server.coordinator.model.engine import Engine
    from queryable_state.server.coordinator.model.job_config import JobConfig
    from queryable_state.server.coordinator.model.operators import OperatorLayout
    from queryable_state.server.coordinator.settings import CoordinatorSettings
    from queryable_state.server.coordinator.status.reports import BatchReport, RunFailure
    from queryable_state.v1 import registration_pb2

_log = logging.getLogger(__name__)


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


class Coordinator:
    """The only source of placement, epochs and commits of the queries of one engine.

    Lives in the driver: `start` (or `with`) opens its port and starts its threads, `close` tells
    all state servers to drain and exit, waits for them within `stop_timeout_s`, and ends; both are
    idempotent, a closed one cannot be started again. All methods may be called from every thread.
    """

    def __init__(
        self,
        engine: Engine,
        settings: CoordinatorSettings,
        *,
        clock_ms: Callable[[], int] = lease_ms,
        wall_ms: Callable[[], int] = _wall_ms,
    ) -> None:
        if not settings.secret:
            settings = replace(settings, secret=secrets.token_urlsafe(32))
        self._settings = settings
        self._engine = engine
        self._parts = CoordinatorParts(engine, settings, clock_ms=clock_ms, wall_ms=wall_ms)
        self._lock = threading.Lock()
        self._running: ExitStack | None = None
        self._address: str | None = None
        self._secret_file: Path | None = None
        self._closed = False

    def start(self) -> Self:
        """Opens the port; raises `InvalidRequestError` if none of the setting is free."""
        with self._lock:
            if self._closed:
                raise RetryLaterError("this coordinator is closed: make a new one")
            if self._running is None:
                with ExitStack() as stack:
                    self._address, self._secret_file = self._parts.start(stack)
                    self._running = stack.pop_all()
        return self

    def close(self) -> None:
        """Ends the state servers, then the coordinator."""
        with self._lock:
            running, self._running, self._closed = self._running, None, True
            if running is not None:
                running.close()

    def stop(self) -> None:
        """The same as `close`."""
        self.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def address(self) -> str:
        """HOST:PORT for state servers and proxies."""
        if self._address is None:
            raise RetryLaterError("the coordinator has no address before it is started")
        return self._address

    @property
    def metrics_address(self) -> str:
        """HOST:PORT of the metrics of the driver, once started; empty: it has no such port."""
        return self._parts.metrics_port.address

    @property
    def secret(self) -> str:
        """What every call must present."""
        return self._settings.secret

    @property
    def secret_file(self) -> Path:
        """A file with the secret, mode 0600, there until `close`: for proxies a person starts."""
        if self._secret_file is None:
            raise RetryLaterError("the coordinator has no secret file before it is started")
        return self._secret_file

    @property
    def objects(self) -> MemoryObjectStore:
        """The files of `driver:` roots."""
        return self._parts.objects

    def publish_endpoint(self, folder: str, storage_options: Mapping[str, Any]) -> None:
        """Writes the endpoint file of this driver into a folder until `close`. I/O.

        The state root of each durable job gets one by itself. A folder that cannot be written is
        logged.
        """
        try:
            storage = storage_of(folder, storage_options, objects=self.objects)
        except QueryableStateError as problem:
            _log.warning("the endpoint file of %s is not written: %s", folder, problem)
            return
        self._parts.endpoints.publish(folder, storage)

    def configure(self, config_id: str, config: JobConfig) -> None:
        """Sets how the jobs keep their state whose operators carry this id; before they start.

        An empty id: the jobs of operators that carry none, or one that is not known.
        """
        self._parts.configs.configure(config_id, config)

    def run_started(
        self, query_id: bytes, config_id: str, operators: Sequence[OperatorLayout]
    ) -> None:
        """The newest run of a query has these stateful operators; to be told before its first
        batch, so that a batch which an operator missed is noticed."""
        info = self._engine.query(query_id)
        if info is not None:
            after = self._engine.newest_commit(query_id)
            start = RunStart(config_id=config_id, operators=tuple(operators), after=after)
            self._parts.operators.started(query_id, info, start)

    def continued(
        self, query_id: bytes, batch_id: int, config_id: str, timeout_s: float
    ) -> AbstractSet[str]:
        """Same contract as `BatchCoordinator.continued`."""
        return self._parts.batch_coordinator.continued(query_id, batch_id, config_id, timeout_s)

    def is_sealed(
        self, query_id: bytes, batch_id: int, operators: Iterable[OperatorLayout]
    ) -> bool:
        """Whether servers report seals of all subtasks of a batch that is not committed yet."""
        return self._parts.commits.is_sealed(query_id, batch_id, operators)

    def recover(self, query_id: bytes, config_id: str, operators: Sequence[OperatorLayout]) -> bool:
        """Has durable state of a query's newest run opened; whether there is any. Waits not."""
        return self._parts.idle_restorer.keep_open(query_id, config_id, operators)

    def await_recovered(self, query_id: bytes, timeout_s: float) -> bool:
        """Waits until that is open, or left to the next batch; False: not in time."""
        return self._parts.idle_restorer.await_open(query_id, timeout_s)

    def jobs(self) -> list[JobView]:
        """Every job known, by first contact."""
        return self._parts.catalog.list_jobs()

    def states(self, job: str = "") -> list[registration_pb2.StateRegistration]:
        """The queryable states of a job (id or name), or of all."""
        return self._parts.catalog.list_states(job)

    def location(self, job: str, state_name: str) -> registration_pb2.StateLocation:
        """A state's registration and owners, as `LocateState` answers them."""
        return self._parts.catalog.locate(job, state_name)

    def proxy_addresses(self) -> list[str]:
        """HOST:PORT of the proxies of the state servers that hold a lease."""
        return self._parts.leases.proxy_addresses()

    def drop_query(self, query_id: bytes) -> None:
        """Forgets an ended query and its state; refuses a running one."""
        self._parts.clients.drop_query(query_id, self._parts.catalog.drop(query_id))
        self._parts.forget(query_id)

    def batch_committed(self, query_id: bytes, batch_id: int) -> None:
        """Tells of a commit, where the engine says so by itself; may be late or repeated."""
        self._parts.commits.batch_committed(query_id, batch_id)

    def batch_reported(self, query_id: bytes, report: BatchReport) -> None:
        """Takes the engine's report of a finished batch, for the status of the job."""
        self._parts.facts.batch_reported(query_id, report)

    def run_failed(self, query_id: bytes, run_id: bytes, failure: RunFailure) -> None:
        """Takes the cause of a failed run, for the status of the job; once for each run."""
        self._parts.facts.run_failed(query_id, run_id, failure)

    def restarts_watched(self, query_id: bytes, *, is_watched: bool) -> None:
        """Tells whether a restart strategy decides on the next failure of a job."""
        self._parts.facts.restarts_watched(query_id, is_watched=is_watched)

    def restart_pending(self, query_id: bytes, at_ms: int) -> None:
        """Tells when a failed job starts again, milliseconds since the epoch; 0: not any more."""
        self._parts.facts.restart_pending(query_id, at_ms)

    def settle(self, query_id: bytes, batch_id: int, timeout_s: float) -> bool:
        """Tells of a commit, and waits until the state servers answer by it.

        False where the batch is not committed, or not all servers answered in time.
        """
        return self._parts.commits.settle(query_id, batch_id, timeout_s)

    def owes_batch(self, query_id: bytes) -> bool:
        """True while the input so far makes another batch of a query necessary, which Spark plans
        without input: windows and event-time timers become due, or it is not known yet."""
        return self._parts.marker_batches.owes_batch(query_id)

    def next_timers(self, query_id: bytes) -> tuple[int | None, int | None]:
        """The earliest pending timers of a query: processing time and event time, None: none.

        Milliseconds since the epoch, over all subtasks, after the newest published batch: `settle`
        one first to include it. The processing time is 0, and so due, while the timers of a subtask
        are not known: before the first batch of a run, and if a server did not report. Both are
        None for an unknown query, and before the operators of a driver's first run have begun:
        every run must start with one batch.
        """
        return self._parts.timers.next(query_id)

    def trigger_checkpoint(self, query_id: bytes, timeout_s: float) -> CheckpointMetadata:
        """Takes a checkpoint now, or as soon as the job can be written as a whole.

        CheckpointError where the job keeps no durable state, or the checkpoint fails.
        """
        return self._parts.checkpointing.checkpointer.trigger(query_id, timeout_s)

    def trigger_savepoint(
        self, job: str, directory: str = "", *, stop: bool = False, timeout_s: float | None = None
    ) -> tuple[str, int]:
        """Writes a savepoint of a job into a new folder; answers its URI, and its batch.

        As `Savepoints.trigger`: an empty `job` is the only one that runs.
        """
        savepoints = self._parts.checkpointing.savepoints
        return savepoints.trigger(job, directory, stop=stop, timeout_s=timeout_s)

    def checkpoints(self, query_id: bytes) -> list[CheckpointReport]:
        """The attempts at checkpoints and savepoints of a job in this driver, newest first."""
        return self._parts.checkpointing.history.of(query_id)

    def job_cancelled(self, query_id: bytes, *, discards: bool = False) -> None:
        """The user has ended a job for good; waits for its end.

        Removes what is stored of it where its configuration says so, or with `discards`, after
        which the caller removes Spark's checkpoint; a failed job keeps it.
        """
        self._parts.checkpointing.ends.cancelled(query_id, discards=discards)

    def refresh(self) -> None:
        """Asks the engine at once which queries have ended and why."""
        self._parts.watcher.look_for_ends()
        self._parts.watcher.look_for_causes()

    def tick(self) -> None:
        """Brings leases up to the clock; only a clock that does not go by itself needs it."""
        self._parts.leases.tick()
