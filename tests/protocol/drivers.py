"""Coordinators without a port, one after another."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from tests.protocol.servers import RefusedError, Servers

from queryable_state.internal.v1 import backend_pb2
from queryable_state.server.checkpoint.file_systems.object_storage import MemoryObjectStore
from queryable_state.server.coordinator.batch_coordinator import BatchCoordinator
from queryable_state.server.coordinator.batches.batches import Batches
from queryable_state.server.coordinator.batches.catalog import Catalog
from queryable_state.server.coordinator.batches.commit_publisher import CommitPublisher
from queryable_state.server.coordinator.batches.manifests import Manifests
from queryable_state.server.coordinator.batches.pending_timers import PendingTimers
from queryable_state.server.coordinator.batches.run_operators import RunOperators
from queryable_state.server.coordinator.checkpoints.checkpointer import Checkpointer
from queryable_state.server.coordinator.checkpoints.history import CheckpointHistory
from queryable_state.server.coordinator.checkpoints.snapshot_writer import SnapshotWriter
from queryable_state.server.coordinator.checkpoints.snapshots import Snapshots
from queryable_state.server.coordinator.model.epochs import Epochs
from queryable_state.server.coordinator.model.job_config import JobConfig, JobConfigs
from queryable_state.server.coordinator.model.state import CoordinatorState
from queryable_state.server.coordinator.recovery.batch_commits import BatchCommits
from queryable_state.server.coordinator.recovery.restore_plans import RestorePlans
from queryable_state.server.coordinator.recovery.run_binder import RunBinder
from queryable_state.server.coordinator.roots.fencing import Fencing
from queryable_state.server.coordinator.roots.job_roots import JobRoots
from queryable_state.server.coordinator.servers.leases import Leases
from queryable_state.server.coordinator.servers.subtasks import Subtasks
from queryable_state.server.coordinator.settings import CoordinatorSettings
from queryable_state.server.coordinator.status.job_facts import FactTable
from queryable_state.wire.errors import QueryableStateError, RetryLaterError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tests.protocol.loop import Clock

    from queryable_state.server.coordinator.model.commits import CommitRound
    from queryable_state.server.testing import InMemoryEngine

LEASE_MS, MARGIN_MS = 5_000, 1_000
_STEP_MS = 200


class Driver:
    """A coordinator's parts, without its port. Blocking, as they are."""

    def __init__(self, engine: InMemoryEngine, clock: Clock, servers: Servers) -> None:
        settings = CoordinatorSettings(
            strict=False,
            lease_ms=LEASE_MS,
            lease_margin_ms=MARGIN_MS,
            push_timeout_ms=1_000,
            manifest_timeout_ms=5_000,
        )
        clients: Any = _Clients(servers)
        self._clock = clock
        self.state = CoordinatorState(
            settings, clock_ms=lambda: clock.now_ms, wall_ms=lambda: clock.now_ms
        )
        self.leases = Leases(self.state)
        self.roots = JobRoots()
        configs = JobConfigs()
        # Every file of a checkpoint stands apart, so that it can be damaged.
        configs.configure("", JobConfig(inline_bytes=0))
        self.objects = MemoryObjectStore()
        batches, operators = Batches(self.state), RunOperators(self.state)
        settled, facts = threading.Event(), FactTable(lambda: clock.now_ms)
        fencing = Fencing(engine, self.state, self.roots, clients, look_s=LEASE_MS / 1000)
        self.publisher = CommitPublisher(
            batches,
            operators,
            PendingTimers(self.state),
            Manifests(engine, self.state, operators, self.roots, fencing),
            clients,
            engine,
            self.roots,
            fencing,
            settled,
            facts,
            strict=False,
            strict_determinism=False,
            manifest_timeout_s=5.0,
        )
        run_binder = RunBinder(
            engine,
            self.state,
            configs,
            self.roots,
            Epochs(),
            self.objects,
            self.publisher,
            strict=False,
        )
        self.commits = BatchCommits(engine, run_binder, batches, operators, self.publisher)
        self.batch_coordinator = BatchCoordinator(
            engine,
            run_binder,
            fencing,
            self.roots,
            RestorePlans(engine, self.state, self.roots),
            Subtasks(self.state),
            batches,
            operators,
            Catalog(self.state),
            self.publisher,
            facts,
            settle_timeout_s=1.0,
        )
        snapshots = Snapshots(self.state, self.roots)
        writer = SnapshotWriter(engine, snapshots, clients)
        self.checkpointer = Checkpointer(
            engine,
            self.roots,
            snapshots,
            writer,
            CheckpointHistory(),
            settled,
            wall_ms=self.state.wall_ms,
        )

    def advance(self, ms: int) -> None:
        """Lets time pass, in steps: a leap would be taken for a stalled process."""
        while ms > 0:
            self._clock.now_ms += min(ms, _STEP_MS)
            ms -= _STEP_MS
            self.leases.tick()

    def close(self) -> None:
        self.checkpointer.close()
        self.publisher.close()


class _Clients:
    """A coordinator's way to its servers: the calls of `StateServerClients`."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    def sealed(
        self, query_id: bytes, version: int, addresses: Mapping[str, str]
    ) -> dict[str, list[backend_pb2.SealedSubtask]]:
        request = backend_pb2.ReportSealsRequest(query_id=query_id, version=version)
        answers = {
            server_id: self._answer(address, "ReportSeals", request)
            for server_id, address in addresses.items()
        }
        return {
            server_id: list(answer.sealed)
            for server_id, answer in answers.items()
            if answer is not None
        }

    def commit(self, commit_round: CommitRound) -> dict[str, list[backend_pb2.SealedSubtask]]:
        commit = commit_round.commit
        request = backend_pb2.CommitRequest(
            query_id=commit_round.query_id,
            version=commit.version,
            commit_time_ms=commit.commit_time_ms,
            watermark_ms=commit.watermark_ms,
            stable_version=commit_round.stable_version,
        )
        seals = {}
        for server_id, address in commit_round.addresses.items():
            answer = self._answer(address, "Commit", request)
            if answer is not None:
                seals[server_id] = list(answer.sealed)
        return seals

    def drop_query(self, query_id: bytes, addresses: Iterable[str]) -> set[str]:
        request = backend_pb2.DropQueryRequest(query_id=query_id)
        return {a for a in addresses if self._answer(a, "DropQuery", request) is not None}

    def snapshot(
        self, address: str, request: backend_pb2.SnapshotRequest, timeout_s: float
    ) -> _SnapshotCall:
        return _SnapshotCall(self._servers, address, request)

    def _answer(self, address: str, rpc: str, request: Any) -> Any:
        server = self._servers.by_address.get(address)
        if server is None or server.driver is None:
            return None
        try:
            return self._servers.runner.run(server.call(rpc, request))
        except QueryableStateError:
            return None


class _SnapshotCall:
    def __init__(
        self, servers: Servers, address: str, request: backend_pb2.SnapshotRequest
    ) -> None:
        self._servers, self._address, self._request = servers, address, request

    def __iter__(self) -> Iterator[backend_pb2.SnapshotEvent]:
        server = self._servers.by_address.get(self._address)
        if server is None or server.driver is None:
            raise RetryLaterError(f"nobody answers at {self._address}")
        try:
            yield from self._servers.runner.run(server.events(self._request))
        except RefusedError as refusal:
            raise refusal.error from None

    def cancel(self) -> None:
        """What is not begun yet has nothing to end."""
