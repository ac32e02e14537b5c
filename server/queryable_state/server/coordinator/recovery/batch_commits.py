"""Spark's commits of batches and ends of queries: as reported, and as polled."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from queryable_state.internal.v1 import coordinator_pb2
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from queryable_state.server.coordinator.batches.batches import Batches, InFlight
    from queryable_state.server.coordinator.batches.catalog import Catalog
    from queryable_state.server.coordinator.batches.commit_publisher import CommitPublisher
    from queryable_state.server.coordinator.batches.run_operators import RunOperators
    from queryable_state.server.coordinator.model.engine import Engine, QueryInfo
    from queryable_state.server.coordinator.model.operators import OperatorLayout
    from queryable_state.server.coordinator.recovery.run_binder import RunBinder
    from queryable_state.server.coordinator.servers.leases import Leases
    from queryable_state.server.coordinator.servers.state_server_clients import StateServerClients

_log = logging.getLogger(__name__)


_SHORTEST_S = 0.01
_LONGEST_S = 0.1
_IDLE_S = 0.25
_ENDS_S = 1.0
# A poll may take this fraction of a thread's time: local files are polled more often than an object
# store.
_PART_OF_TIME = 20


class BatchCommits:
    """Records Spark's commits, and refuses batches that an operator missed. Thread-safe."""

    def __init__(
        self,
        engine: Engine,
        run_binder: RunBinder,
        batches: Batches,
        operators: RunOperators,
        publisher: CommitPublisher,
    ) -> None:
        self._engine = engine
        self._run_binder = run_binder
        self._batches = batches
        self._operators = operators
        self._publisher = publisher

    def batch_committed(self, query_id: bytes, batch_id: int) -> None:
        """Handles the engine's report that a batch is committed; may be late or repeated.

        The report is trusted if this run has begun the batch; else Spark is asked.
        """
        if batch_id <= self._batches.committed(query_id):
            return
        try:
            if not self._batches.was_begun(query_id, batch_id):
                if not self._engine.is_committed(query_id, batch_id):
                    return
                self._check_unbegun(query_id, batch_id)
        except QueryableStateError as failure:
            _log.info("commit of batch %d of %s: %s", batch_id, query_id.hex(), failure)
            return
        self._publisher.committed(query_id, batch_id)

    def _check_unbegun(self, query_id: bytes, batch_id: int) -> None:
        """Refuses a batch that is committed in a run of which no task has begun any batch."""
        start, info = self._operators.start(query_id), self._engine.query(query_id)
        if start is None or info is None or self._run_binder.is_bound(query_id, info.run_id):
            return
        if start.after >= 0 and self._run_binder.is_durable(start.config_id, info):
            # An earlier run may have sealed the batch: the root tells.
            first = coordinator_pb2.BeginBatchRequest(
                query_id=query_id,
                run_id=info.run_id,
                batch_id=batch_id + 1,
                config_id=start.config_id,
            )
            self._run_binder.bind(first, info)
            return
        for batch in range(start.after + 1, batch_id + 1):
            for missed in self._operators.unbegun(query_id, batch):
                if self._engine.has_input(query_id, batch, missed.layout.sources):
                    self._publisher.missed(query_id, info.run_id, missed.error(missed.missing))
                    return

    def is_sealed(
        self, query_id: bytes, batch_id: int, operators: Iterable[OperatorLayout]
    ) -> bool:
        """Whether servers report seals of all subtasks of a batch that is not committed yet."""
        seals = self._publisher.sealed(query_id, batch_id)
        return self._operators.have_sealed(batch_id, operators, seals.values())

    def settle(self, query_id: bytes, batch_id: int, timeout_s: float) -> bool:
        """Records the commit of a batch, and waits until the state servers answer by it.

        False if the batch is not committed, or not all servers answered in time.
        """
        self.batch_committed(query_id, batch_id)
        if self._batches.committed(query_id) < batch_id:
            return False
        return self._batches.wait_published(query_id, batch_id, timeout_s)


class Watcher:
    """Polls Spark on one thread, at short intervals only while a batch is in flight.

    A second thread advances the clock of the leases: a slow answer of Spark must not look like a
    suspended process. `wake` after a begin; `close` waits for both threads.
    """

    def __init__(
        self,
        engine: Engine,
        leases: Leases,
        batches: Batches,
        catalog: Catalog,
        publisher: CommitPublisher,
        clients: StateServerClients,
        *,
        forget: Callable[[bytes], None],
        retained_finished_jobs: int,
    ) -> None:
        self._engine = engine
        self._leases = leases
        self._batches = batches
        self._catalog = catalog
        self._publisher = publisher
        self._clients = clients
        self._forget = forget
        self._retained = retained_finished_jobs
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=target, name=f"queryable-state-{name}", daemon=True)
            for name, target in (("watcher", self._watch), ("clock", self._tick))
        ]

    def start(self) -> None:
        """Starts both threads."""
        for thread in self._threads:
            thread.start()

    def wake(self) -> None:
        """Polls at once, because a batch has begun."""
        self._wake.set()

    def close(self) -> None:
        """Ends both threads; may be repeated."""
        self._stopping.set()
        self._wake.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def look_for_causes(self) -> None:
        """Asks Spark for the errors of ended queries that have none yet."""
        for query_id in self._catalog.ended_without_cause():
            try:
                self._catalog.observe({query_id: self._engine.query(query_id)})
            except QueryableStateError as failure:
                _log.info("query %s: %s", query_id.hex(), failure)

    def look_for_ends(self) -> None:
        """Asks Spark which queries have ended, and drops jobs beyond the retained number."""
        observed: dict[bytes, QueryInfo | None] = {}
        for query_id in self._catalog.running():
            try:
                info = self._engine.query(query_id)
                if info is None or not info.active:
                    # Its last batch may have been committed since the last look.
                    self._look_for_commits(query_id)
                observed[query_id] = info
            except QueryableStateError as failure:
                _log.info("query %s: %s", query_id.hex(), failure)
        self._catalog.observe(observed)
        for query_id, addresses in self._catalog.drop_beyond(self._retained).items():
            _log.info("the state of ended job %s is dropped", query_id.hex())
            self._clients.drop_query(query_id, addresses)
            self._forget(query_id)

    def _tick(self) -> None:
        while not self._stopping.wait(_IDLE_S):
            self._leases.tick()

    def _watch(self) -> None:
        next_ends_s = time.monotonic() + _ENDS_S
        while not self._stopping.is_set():
            # Cleared before looking: a begin during the look is looked at right after.
            self._wake.clear()
            try:
                self._clients.keep(self._leases.backend_addresses())
                pause_s = min(map(self._look, self._batches.in_flight()), default=_IDLE_S)
                if time.monotonic() >= next_ends_s:
                    next_ends_s = time.monotonic() + _ENDS_S
                    self.look_for_ends()
            except Exception:  # noqa: BLE001 - the thread must outlive a defect of the engine
                _log.exception("the coordinator's watcher failed, and goes on")
                pause_s = _IDLE_S
            self._wake.wait(pause_s)

    def _look(self, batch: InFlight) -> float:
        """Checks whether the batch is committed; returns the seconds until the next check."""
        began_s = time.monotonic()
        try:
            committed = self._engine.is_committed(batch.query_id, batch.batch_id)
        except QueryableStateError as failure:
            _log.info("batch %d of %s: %s", batch.batch_id, batch.query_id.hex(), failure)
            return _IDLE_S
        if committed:
            self._publisher.committed(batch.query_id, batch.batch_id)
            return _IDLE_S
        took_s = time.monotonic() - began_s
        return min(max(took_s * _PART_OF_TIME, _SHORTEST_S), _LONGEST_S)

    def _look_for_commits(self, query_id: bytes) -> None:
        for batch in self._batches.in_flight():
            if batch.query_id == query_id:
                self._look(batch)
