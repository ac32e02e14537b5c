"""Notification of the coordinator about started queries and their operators."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.server.coordinator import Coordinator, OperatorLayout

_log = logging.getLogger("queryable_state.streaming")

# Spark raises these when it fails, and while it stops.
_FAILURES = (QueryableStateError, Py4JError, OSError, AttributeError)


class StoredState:
    """Opens the stored state of started queries, without waiting.

    The coordinator opens the state even if no batch runs, and opens it again if a server is lost.
    """

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    def open(
        self, query_id: bytes, name: str, config_id: str, operators: Sequence[OperatorLayout]
    ) -> None:
        """Sets all operators of a query's newest run; call it before the first batch.

        Errors are logged and do not fail the query.
        """
        try:
            self._coordinator.run_started(query_id, config_id, operators)
            self._coordinator.recover(query_id, config_id, operators)
        except _FAILURES as failure:
            _log.warning(
                "the stored state of job %r cannot be queried before its next batch: %s",
                name,
                failure,
            )
