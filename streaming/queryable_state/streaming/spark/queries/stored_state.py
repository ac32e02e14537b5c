"""The operators and the stored state of a query that has started, as the coordinator is told."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.server.coordinator import Coordinator, OperatorLayout

_log = logging.getLogger("queryable_state.streaming")

# Spark's own, as it is asked and as it stops.
_FAILURES = (QueryableStateError, Py4JError, OSError, AttributeError)


class StoredState:
    """Tells a coordinator of started queries; waits for nothing.

    The coordinator opens what their operators have stored, though no batch may run, and opens it
    again where a server is lost.
    """

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    def open(
        self, query_id: bytes, name: str, config_id: str, operators: Sequence[OperatorLayout]
    ) -> None:
        """The newest run of a query has these operators, and no others.

        To be called before its first batch. No query fails by a failure here, which is logged.
        """
        try:
            self._coordinator.run_started(query_id, config_id, operators)
            self._coordinator.recover(query_id, config_id, operators)
        except _FAILURES as failure:
            _log.warning(
                "the stored state of job %r can be queried from its next batch on: %s",
                name,
                failure,
            )
