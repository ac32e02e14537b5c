"""Tells the state servers of commits, and the job of what its seals show."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from queryable_state.internal.v1 import backend_pb2
    from queryable_state.server.coordinator.backend_links import BackendLinks
    from queryable_state.server.coordinator.batch_checks import Finding
    from queryable_state.server.coordinator.batches import Batches
    from queryable_state.server.coordinator.engine import Engine

_log = logging.getLogger(__name__)

_THREADS = 8


class Announcer:
    """Pushes commits, one round a query at a time, on threads of its own."""

    def __init__(
        self, batches: Batches, links: BackendLinks, engine: Engine, *, strict: bool
    ) -> None:
        self._batches = batches
        self._links = links
        self._engine = engine
        self._strict = strict
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="queryable-state-commit")
        self._lock = threading.Lock()
        self._closed = False

    def announce(self, query_id: bytes) -> None:
        """Starts the push that is due, if any, and returns at once; once closed, does nothing."""
        with self._lock:
            if not self._closed and not self._batches.is_settled(query_id):
                self._threads.submit(self._push, query_id)

    def close(self) -> None:
        """Waits for what is under way; may be repeated."""
        with self._lock:
            self._closed = True
        self._threads.shutdown()

    def _push(self, query_id: bytes) -> None:
        try:
            while commit_round := self._batches.next_round(query_id):
                seals: dict[str, list[backend_pb2.SealedSubtask]] = {}
                try:
                    seals = self._links.commit(commit_round)
                finally:
                    findings = self._batches.end_round(commit_round, seals)
                for finding in findings:
                    self._tell(query_id, finding)
        except Exception:  # noqa: BLE001 - nobody waits for the outcome of this thread
            _log.exception("commits of query %s are not pushed", query_id.hex())

    def _tell(self, query_id: bytes, finding: Finding) -> None:
        _log.error("%s: %s", finding.error.reason_name, finding.error)
        if not self._strict:
            return
        try:
            self._engine.stop_query(query_id, finding.error)
        except QueryableStateError as failure:
            _log.error("query %s is not stopped: %s", query_id.hex(), failure)
