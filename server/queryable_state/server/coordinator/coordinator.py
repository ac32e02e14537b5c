"""The coordinator as the driver uses it: its components, connected, and their life."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from queryable_state.server.checkpoint.file_systems.object_storage import MemoryObjectStore
from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.server.coordinator.batch_coordinator import BatchCoordinator
from queryable_state.server.coordinator.batches.batches import Batches
from queryable_state.server.coordinator.batches.catalog import Catalog
from queryable_state.server.coordinator.batches.commit_publisher import CommitPublisher
from queryable_state.server.coordinator.batches.manifests import Manifests
from queryable_state.server.coordinator.batches.marker_batches import MarkerBatches
from queryable_state.server.coordinator.batches.pending_timers import PendingTimers
from queryable_state.server.coordinator.batches.run_operators import RunOperators
from queryable_state.server.coordinator.checkpoints.checkpointer import Checkpointer
from queryable_state.server.coordinator.checkpoints.history import CheckpointHistory
from queryable_state.server.coordinator.checkpoints.job_ends import JobEnds
from queryable_state.server.coordinator.checkpoints.savepoints import Savepoints
from queryable_state.server.coordinator.checkpoints.snapshot_writer import SnapshotWriter
from queryable_state.server.coordinator.checkpoints.snapshots import Snapshots
from queryable_state.server.coordinator.model.epochs import Epochs
from queryable_state.server.coordinator.model.job_config import JobConfigs
from queryable_state.server.coordinator.model.run import RunStart
from queryable_state.server.coordinator.model.state import CoordinatorState
from queryable_state.server.coordinator.port import CoordinatorPort, DriverMetricsPort, SecretFile
from queryable_state.server.coordinator.recovery.batch_commits import BatchCommits, Watcher
from queryable_state.server.coordinator.recovery.idle_restorer import IdleRestorer
from queryable_state.server.coordinator.recovery.restore_plans import RestorePlans
from queryable_state.server.coordinator.recovery.run_binder import RunBinder
from queryable_state.server.coordinator.roots.endpoint_files import EndpointFiles
from queryable_state.server.coordinator.roots.fencing import Fencing
from queryable_state.server.coordinator.roots.job_roots import JobRoots
from queryable_state.server.coordinator.servers.leases import Leases
from queryable_state.server.coordinator.servers.state_server_clients import (
    StateServerClients,
    shutdown_servers,
)
from queryable_state.server.coordinator.servers.subtasks import Subtasks
from queryable_state.server.coordinator.service import CoordinatorService
from queryable_state.server.coordinator.status.job_facts import FactTable
from queryable_state.server.coordinator.status.job_status import JobStatus
from queryable_state.server.coordinator.status.load_table import LoadTable
from queryable_state.server.coordinator.status.server_list import ServerList
from queryable_state.server.lease_clock import lease_ms
from queryable_state.server.metrics.collectors.driver_metrics import DriverMetrics
from queryable_state.wire.errors import QueryableStateError, RetryLaterError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from queryable_state.server.coordinator.model.engine import Engine
    from queryable_state.server.coordinator.model.operators import OperatorLayout
    from queryable_state.server.coordinator.settings import CoordinatorSettings

_log = logging.getLogger(__name__)


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


class Coordinator:
    """The only source of placement, epochs and commits of the queries of one engine.

    Lives in the driver: `start` (or `with`) opens its port and starts its threads, `close` tells
    all state servers to drain and exit, waits for them within `stop_timeout_s`, and ends; both are
    idempotent, a closed one cannot be started again. All methods may be called from every thread.
    A call that one component answers is that component's method, whose docstring is its contract.
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
        self._lock = threading.Lock()
        self._running: ExitStack | None = None
        self._address: str | None = None
        self._secret_file: Path | None = None
        self._closed = False

        state = CoordinatorState(settings, clock_ms=clock_ms, wall_ms=wall_ms)
        configs = JobConfigs()
        self._leases = Leases(state)
        self._catalog = Catalog(state)
        timers = PendingTimers(state)
        self._facts = FactTable(wall_ms)
        batches = Batches(state)
        self._clients = StateServerClients(
            settings.secret,
            timeout_ms=settings.push_timeout_ms,
            connector=settings.tls.connector(),
        )
        roots = JobRoots()
        self.objects = MemoryObjectStore()
        """The files of `driver:` roots."""
        self._endpoints = EndpointFiles(
            settings.application, settings.secret, wall_ms, enabled=settings.endpoint_files
        )
        self._fencing = Fencing(engine, state, roots, self._clients, look_s=settings.heartbeat_s)
        self._operators = RunOperators(state)
        self._plans = RestorePlans(engine, state, roots)
        published = threading.Event()
        self._publisher = CommitPublisher(
            batches,
            self._operators,
            timers,
            Manifests(engine, state, self._operators, roots, self._fencing),
            self._clients,
            engine,
            roots,
            self._fencing,
            published,
            self._facts,
            strict=settings.strict,
            strict_determinism=settings.strict_determinism,
            manifest_timeout_s=settings.manifest_timeout_ms / 1000,
        )
        self._run_binder = RunBinder(
            engine,
            state,
            configs,
            roots,
            Epochs(),
            self.objects,
            self._publisher,
            self._clients,
            endpoints=self._endpoints,
            strict=settings.strict,
        )
        self._commits = BatchCommits(
            engine, self._run_binder, batches, self._operators, self._publisher
        )
        self._marker_batches = MarkerBatches(
            engine, state, self._publisher, next_timers=timers.next
        )
        self._batch_coordinator = BatchCoordinator(
            engine,
            self._run_binder,
            self._fencing,
            roots,
            self._plans,
            Subtasks(state),
            batches,
            self._operators,
            self._catalog,
            self._publisher,
            self._facts,
            settle_timeout_s=settings.push_timeout_ms / 1000,
        )
        self._idle_restorer = IdleRestorer(
            engine,
            state,
            roots,
            self._run_binder,
            self._plans,
            self._commits,
            self._clients,
            look_s=settings.reopen_after_ms / 1000,
        )
        snapshots = Snapshots(state, roots)
        writer = SnapshotWriter(engine, snapshots, self._clients)
        history = CheckpointHistory()
        self._checkpointer = Checkpointer(
            engine, roots, snapshots, writer, history, published, wall_ms=wall_ms
        )
        ends = JobEnds(engine, self._commits, roots, snapshots, writer)
        self._savepoints = Savepoints(
            engine, roots, snapshots, writer, history, ends, wall_ms=wall_ms
        )
        self._load = LoadTable(wall_ms)
        self._job_status = JobStatus(
            state, self._catalog, roots, history, writer, self._facts, self._load
        )
        self._servers = ServerList(state, self._load)
        self._metrics_port = DriverMetricsPort(
            settings,
            DriverMetrics(self._catalog, self._job_status, self._servers, history),
        )
        self._watcher = Watcher(
            engine,
            self._leases,
            batches,
            self._catalog,
            self._publisher,
            self._clients,
            forget=self._forget,
            retained_finished_jobs=settings.retained_finished_jobs,
        )

        # Calls of the driver, each bound to the component that answers it.
        self.configure = configs.configure
        self.continued = self._batch_coordinator.continued
        self.is_sealed = self._commits.is_sealed
        self.batch_committed = self._commits.batch_committed
        self.settle = self._commits.settle
        self.recover = self._idle_restorer.keep_open
        self.await_recovered = self._idle_restorer.await_open
        self.owes_batch = self._marker_batches.owes_batch
        self.next_timers = timers.next
        self.jobs = self._catalog.list_jobs
        self.states = self._catalog.list_states
        self.location = self._catalog.locate
        self.proxy_addresses = self._leases.proxy_addresses
        self.tick = self._leases.tick
        self.batch_reported = self._facts.batch_reported
        self.run_failed = self._facts.run_failed
        self.restarts_watched = self._facts.restarts_watched
        self.restart_pending = self._facts.restart_pending
        self.trigger_checkpoint = self._checkpointer.trigger
        self.trigger_savepoint = self._savepoints.trigger
        self.checkpoints = history.of
        self.job_cancelled = ends.cancelled

    def start(self) -> Self:
        """Opens the port; raises `InvalidRequestError` if none of the setting is free."""
        with self._lock:
            if self._closed:
                raise RetryLaterError("this coordinator is closed: make a new one")
            if self._running is None:
                with ExitStack() as stack:
                    self._start(stack)
                    self._running = stack.pop_all()
        return self

    def close(self) -> None:
        """Ends the state servers, then the coordinator."""
        with self._lock:
            running, self._running, self._closed = self._running, None, True
            if running is not None:
                running.close()

    stop = close

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
        return self._metrics_port.address

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
        self._endpoints.publish(folder, storage)

    def run_started(
        self, query_id: bytes, config_id: str, operators: Sequence[OperatorLayout]
    ) -> None:
        """The newest run of a query has these stateful operators; to be told before its first
        batch, so that a batch which an operator missed is noticed."""
        info = self._engine.query(query_id)
        if info is not None:
            after = self._engine.newest_commit(query_id)
            start = RunStart(config_id=config_id, operators=tuple(operators), after=after)
            self._operators.started(query_id, info, start)

    def drop_query(self, query_id: bytes) -> None:
        """Forgets an ended query and its state; refuses a running one."""
        self._clients.drop_query(query_id, self._catalog.drop(query_id))
        self._forget(query_id)

    def refresh(self) -> None:
        """Asks the engine at once which queries have ended and why."""
        self._watcher.look_for_ends()
        self._watcher.look_for_causes()

    def _start(self, stack: ExitStack) -> None:
        """Opens the port and starts all threads.

        `stack` gets what ends them, in the opposite order: servers drain while the coordinator
        still answers them. InvalidRequestError if no port of the settings is free.
        """
        settings = self._settings
        port = CoordinatorPort(
            CoordinatorService(
                self._leases,
                self._batch_coordinator,
                self._catalog,
                self._watcher,
                self.objects,
                self._savepoints,
                self._marker_batches,
                self._job_status,
                self._servers,
                self._load,
                waiting=max(1, settings.workers * 3 // 4),
            ),
            settings,
        )
        secret_file = SecretFile(settings.secret)
        self._endpoints.open(port.address, tls=settings.tls.uses_tls)
        stack.callback(secret_file.remove)
        stack.callback(self._endpoints.close)
        stack.callback(port.release)
        stack.callback(self._clients.close)
        stack.callback(self._publisher.close)
        stack.callback(port.close)
        stack.callback(self._watcher.close)
        stack.callback(shutdown_servers, self._leases, self._clients, settings.stop_timeout_s)
        stack.callback(self._checkpointer.close)
        stack.callback(self._idle_restorer.close)
        stack.callback(self._fencing.close)
        self._metrics_port.open(stack)
        port.start()
        self._watcher.start()
        self._fencing.start()
        self._checkpointer.start()
        self._address, self._secret_file = port.address, secret_file.path

    def _forget(self, query_id: bytes) -> None:
        """Forgets a dropped query; its files stay."""
        self._run_binder.forget(query_id)
        self._plans.forget(query_id)
        self._marker_batches.forget(query_id)
        self._facts.forget(query_id)
