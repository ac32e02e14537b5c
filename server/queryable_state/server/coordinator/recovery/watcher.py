"""Polling of Spark for commits and ends of queries, and the clock of the leases."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.server.coordinator.batches.batches import Batches, InFlight
    from queryable_state.server.coordinator.batches.catalog import Catalog
    from queryable_state.server.coordinator.batches.commit_publisher import CommitPublisher
    from queryable_state.server.coordinator.model.engine import Engine, QueryInfo
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
            self._batches.commit(batch.query_id, batch.batch_id)
            self._publisher.announce(batch.query_id)
            return _IDLE_S
        took_s = time.monotonic() - began_s
        return min(max(took_s * _PART_OF_TIME, _SHORTEST_S), _LONGEST_S)

    def _look_for_commits(self, query_id: bytes) -> None:
        for batch in self._batches.in_flight():
            if batch.query_id == query_id:
                self._look(batch)
