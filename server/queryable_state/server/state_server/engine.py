"""Answers queries from the state this server owns: the hot path."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import PlacementError

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.server.settings import Limits
    from queryable_state.server.state_server.lease import Lease
    from queryable_state.server.state_server.store_table import StoreTable

_log = logging.getLogger(__name__)


class QueryEngine:
    """Reads committed (or staged) state on the event loop, without ever waiting.

    Only on the thread of the event loop that also commits: an answer sees one version of
    all stores of a job.
    """

    def __init__(
        self,
        table: StoreTable,
        lease: Lease,
        limits: Limits,
        *,
        server_id: str,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.server_id = server_id
        self.limits = limits
        self._table = table
        self._lease = lease
        self._now_ms = now_ms

    def registration(self, state_id: int) -> registration_pb2.StateRegistration | None:
        """The registration of a state this server has a part of; None: it has none."""
        return self._table.registration(state_id)

    def answer(self, query: query_pb2.Query, *, waited_ms: float = 0) -> query_pb2.Answer:
        """The whole answer, in one part. Never raises: refusals stand in the answer.

        `waited_ms` is what the query has waited since it arrived; it counts against its deadline.
        """
        raise PlacementError("unwritten")
