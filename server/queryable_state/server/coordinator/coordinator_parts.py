"""The coordinator's components, connected."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from queryable_state.server.checkpoint.file_systems.object_storage import MemoryObjectStore
from queryable_state.server.coordinator.batch_coordinator import BatchCoordinator
from queryable_state.server.coordinator.batches.batches import Batches
from queryable_state.server.coordinator.batches.catalog import Catalog
from queryable_state.server.coordinator.batches.commit_publisher import CommitPublisher
from queryable_state.server.coordinator.batches.manifests import Manifests
from queryable_state.server.coordinator.batches.marker_batches import MarkerBatches
from queryable_state.server.coordinator.batches.pending_timers import PendingTimers
from queryable_state.server.coordinator.batches.run_operators import RunOperators
from queryable_state.server.coordinator.checkpoints.checkpointing import Checkpointing
from queryable_state.server.coordinator.driver_metrics_port import DriverMetricsPort
from queryable_state.server.coordinator.model.epochs import Epochs
from queryable_state.server.coordinator.model.job_config import JobConfigs
from queryable_state.server.coordinator.model.state import CoordinatorState
from queryable_state.server.coordinator.port import CoordinatorPort
from queryable_state.server.coordinator.recovery.batch_commits import BatchCommits, Watcher
from queryable_state.server.coordinator.recovery.idle_restorer import IdleRestorer
from queryable_state.server.coordinator.recovery.restore_plans import RestorePlans
from queryable_state.server.coordinator.recovery.run_binder import RunBinder
from queryable_state.server.coordinator.roots.endpoint_files import EndpointFiles
from queryable_state.server.coordinator.roots.fencing import Fencing
from queryable_state.server.coordinator.roots.job_roots import JobRoots
from queryable_state.server.coordinator.secret import SecretFile
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
from queryable_state.server.metrics.collectors.driver_metrics import DriverMetrics

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack
    from pathlib import Path

    from queryable_state.server.coordinator.model.engine import Engine
    from queryable_state.server.coordinator.settings import CoordinatorSettings


class CoordinatorParts:
    """Every component of one coordinator. `Coordinator` is its public face."""

    def __init__(
        self,
        engine: Engine,
        settings: CoordinatorSettings,
        *,
        clock_ms: Callable[[], int],
        wall_ms: Callable[[], int],
    ) -> None:
        self._settings = settings
        state = CoordinatorState(settings, clock_ms=clock_ms, wall_ms=wall_ms)
        self.configs = JobConfigs()
        self.leases = Leases(state)
        self.catalog = Catalog(state)
        self.timers = PendingTimers(state)
        self.facts = FactTable(wall_ms)
        batches = Batches(state)
        self.clients = StateServerClients(
            settings.secret,
            timeout_ms=settings.push_timeout_ms,
            connector=settings.tls.connector(),
        )
        roots = JobRoots()
        self.objects = MemoryObjectStore()
        self.endpoints = EndpointFiles(
            settings.application, settings.secret, wall_ms, enabled=settings.endpoint_files
        )
        self._fencing = Fencing(engine, state, roots, self.clients, look_s=settings.heartbeat_s)
        self.operators = RunOperators(state)
        self._plans = RestorePlans(engine, state, roots)
        published = threading.Event()
        self._publisher = CommitPublisher(
            batches,
            self.operators,
            self.timers,
            Manifests(engine, state, self.operators, roots, self._fencing),
            self.clients,
            engine,
            roots,
            self._fencing,
            published,
            self.facts,
            strict=settings.strict,
            strict_determinism=settings.strict_determinism,
            manifest_timeout_s=settings.manifest_timeout_ms / 1000,
        )
        self._run_binder = RunBinder(
            engine,
            state,
            self.configs,
            roots,
            Epochs(),
            self.objects,
            self._publisher,
            self.clients,
            endpoints=self.endpoints,
            strict=settings.strict,
        )
        self.commits = BatchCommits(
            engine, self._run_binder, batches, self.operators, self._publisher
        )
        self.marker_batches = MarkerBatches(
            engine, state, self._publisher, next_timers=self.timers.next
        )
        self.batch_coordinator = BatchCoordinator(
            engine,
            self._run_binder,
            self._fencing,
            roots,
            self._plans,
            Subtasks(state),
            batches,
            self.operators,
            self.catalog,
            self._publisher,
            self.facts,
            settle_timeout_s=settings.push_timeout_ms / 1000,
        )
        self.idle_restorer = IdleRestorer(
            engine,
            state,
            roots,
            self._run_binder,
            self._plans,
            self.commits,
            self.clients,
            look_s=settings.reopen_after_ms / 1000,
        )
        self.checkpointing = Checkpointing(
            engine, state, roots, self.clients, self.commits, published
        )
        self.load = LoadTable(wall_ms)
        self.job_status = JobStatus(
            state, self.catalog, roots, self.checkpointing, self.facts, self.load
        )
        self.servers = ServerList(state, self.load)
        self.metrics_port = DriverMetricsPort(
            settings,
            DriverMetrics(self.catalog, self.job_status, self.servers, self.checkpointing.history),
        )
        self.watcher = Watcher(
            engine,
            self.leases,
            batches,
            self.catalog,
            self._publisher,
            self.clients,
            forget=self.forget,
            retained_finished_jobs=settings.retained_finished_jobs,
        )

    def start(self, stack: ExitStack) -> tuple[str, Path]:
        """Opens the port and starts all threads; returns HOST:PORT, and the file of the secret.

        `stack` gets what ends them, in the opposite order: servers drain while the coordinator
        still answers them. InvalidRequestError if no port of the settings is free.
        """
        settings = self._settings
        port = CoordinatorPort(
            CoordinatorService(
                self.leases,
                self.batch_coordinator,
                self.catalog,
                self.watcher,
                self.objects,
                self.checkpointing.savepoints,
                self.marker_batches,
                self.job_status,
                self.servers,
                self.load,
                waiting=max(1, settings.workers * 3 // 4),
            ),
            settings,
        )
        secret_file = SecretFile(settings.secret)
        self.endpoints.open(port.address, tls=settings.tls.uses_tls)
        stack.callback(secret_file.remove)
        stack.callback(self.endpoints.close)
        stack.callback(port.release)
        stack.callback(self.clients.close)
        stack.callback(self._publisher.close)
        stack.callback(port.close)
        stack.callback(self.watcher.close)
        stack.callback(shutdown_servers, self.leases, self.clients, settings.stop_timeout_s)
        stack.callback(self.checkpointing.close)
        stack.callback(self.idle_restorer.close)
        stack.callback(self._fencing.close)
        self.metrics_port.open(stack)
        port.start()
        self.watcher.start()
        self._fencing.start()
        self.checkpointing.start()
        return port.address, secret_file.path

    def forget(self, query_id: bytes) -> None:
        """Forgets a dropped query; its files stay."""
        self._run_binder.forget(query_id)
        self._plans.forget(query_id)
        self.marker_batches.forget(query_id)
        self.facts.forget(query_id)
