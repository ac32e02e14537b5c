"""In-process cluster of real state servers and a real coordinator, for harnesses."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

from queryable_state.server.security.tls_settings import TlsSettings
from queryable_state.server.testing.cluster import InProcessCluster
from queryable_state.streaming.runtime.backend_client import BackendClient, close_all
from queryable_state.wire.calls.loop_thread import LoopThread
from queryable_state.wire.errors import InvalidRequestError, QueryTimeoutError

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

    from queryable_state.server.state_server.server import StateServer
    from queryable_state.streaming.runtime.operators.spec import OperatorSpec
    from queryable_state.streaming.runtime.states.access import StateAccess
    from queryable_state.streaming.runtime.states.state_spec import TaskIdentity

_T = TypeVar("_T")
_DEADLINE_S = 20.0


class LocalCluster:
    """State servers on a thread of their own, for harnesses in the calling thread.

    with LocalCluster(tmp_path, servers=2) as cluster:
        harness = KeyedOperatorHarness(..., owner=cluster.start_query("job"))
        harness.process(rows)
        # Queries go to any server's proxy: cluster.proxy_address()
    """

    def __init__(
        self,
        directory: Path,
        *,
        servers: int = 1,
        tls: TlsSettings | None = None,
        **settings: Any,
    ) -> None:
        """`tls`: TLS of every port (None: clear text). `settings` override default settings of
        the state servers."""
        self.tls = tls or TlsSettings()
        self._directory = directory
        self._thread = LoopThread("local cluster")
        self._cluster = InProcessCluster(directory, servers=servers, tls=self.tls, **settings)

    @property
    def servers(self) -> list[StateServer]:
        """The running servers."""
        return self._cluster.servers

    @property
    def secret(self) -> str:
        """Secret of all internal calls."""
        return self._cluster.coordinator.secret

    def start_query(self, name: str, *, durable: bool = False) -> ClusterQuery:
        """Starts a query whose batches a harness runs; `durable`: servers keep its changelogs."""
        location = str(self._directory / "jobs" / name) if durable else ""
        return ClusterQuery(self, self._cluster, name, location)

    def proxy_address(self, server: int = 0) -> str:
        """HOST:PORT of a server's proxy, for clients."""
        return self.servers[server].addresses.proxy

    def add_server(self) -> StateServer:
        """Starts another state server."""
        return self.run(self._cluster.add_server())

    def kill_server(self, server: StateServer) -> None:
        """Ends a server as a crash does, without releasing its subtasks."""
        self.run(self._cluster.kill_server(server))

    def stop_server(self, server: StateServer) -> None:
        """Stops a server and drops its state."""
        self.run(self._cluster.stop_server(server))

    def run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Runs a coroutine on the event loop of the servers; returns its result."""
        return self._thread.run(coroutine, timeout_s=_DEADLINE_S)

    def __enter__(self) -> Self:
        try:
            self.run(self._cluster.__aenter__())
        except BaseException:
            self._thread.stop()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        try:
            self.run(self._cluster.__aexit__())
        finally:
            close_all()
            self._thread.stop()


class ClusterQuery:
    """One query on a local cluster: the owner of a harness's state."""

    def __init__(
        self, local: LocalCluster, cluster: InProcessCluster, name: str, location: str = ""
    ) -> None:
        self._name = name
        self._location = location
        self.query_id, self.run_id = cluster.coordinator.engine.start(
            name, checkpoint_location=location
        )
        self.secret = local.secret
        self._tls = local.tls.tls_for_calls
        self.timestamp_ms = 1_000
        """Timestamp of later batches."""
        self.watermark_ms = 0
        """Watermark of later batches."""
        self._cluster = cluster
        self._planned: set[int] = set()

    def restart(self) -> None:
        """Starts a new run of the query; harnesses may run it at another parallelism."""
        _, self.run_id = self._cluster.coordinator.engine.start(
            self._name, query_id=self.query_id, checkpoint_location=self._location
        )

    def rescale(self, spec: OperatorSpec, parallelism: int) -> None:
        """Starts a new run, in which an operator has another parallelism; only of a durable query.

        The servers move the state when the next batch begins.
        """
        if not self._location:
            raise InvalidRequestError(
                f"query {self._name!r} cannot rescale operator {spec.name!r} to {parallelism}: "
                "its state is not durable; start it with durable=True"
            )
        self.restart()

    def take_checkpoint(self) -> int:
        """Takes a checkpoint of a durable query; returns its batch."""
        coordinator = self._cluster.coordinator.coordinator
        return coordinator.trigger_checkpoint(self.query_id, _DEADLINE_S).version

    def access(self, spec: OperatorSpec, task: TaskIdentity) -> StateAccess:
        """State access of one task attempt, through the server assigned to its subtask
        round-robin."""
        if task.batch_id not in self._planned:
            self._planned.add(task.batch_id)
            self._cluster.coordinator.engine.plan(
                self.query_id,
                task.batch_id,
                timestamp_ms=self.timestamp_ms,
                watermark_ms=self.watermark_ms,
            )
        spec = replace(spec, tls=self._tls)
        return BackendClient(spec, task, lambda: self._address(task.subtask))

    def commit(self, batch_id: int) -> None:
        """Commits a batch; waits until every server with state of the query has applied it."""
        coordinator = self._cluster.coordinator
        coordinator.engine.commit(self.query_id, batch_id)
        coordinator.coordinator.batch_committed(self.query_id, batch_id)
        ends_at_s = time.monotonic() + _DEADLINE_S
        while any(version < batch_id for version in self._committed()):
            if time.monotonic() > ends_at_s:
                raise QueryTimeoutError(
                    f"a state server did not commit batch {batch_id} within {_DEADLINE_S:g} s"
                )
            time.sleep(0.005)

    def _committed(self) -> list[int]:
        jobs = [server.table.job(self.query_id) for server in self._cluster.servers]
        return [job.committed_version for job in jobs if job is not None and job.subtasks]

    def _address(self, subtask: int) -> str:
        servers = self._cluster.servers
        return servers[subtask % len(servers)].addresses.backend
