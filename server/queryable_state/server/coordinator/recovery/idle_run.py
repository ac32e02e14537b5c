"""One run whose stored state is kept open between batches."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.server.coordinator.model.operators import OperatorLayout


@dataclass(kw_only=True)
class IdleRun:
    """The subtasks of one run that must be open, and what is known of them."""

    query_id: bytes
    run_id: bytes
    config_id: str
    operators: Sequence[OperatorLayout]
    servers_asked_s: float = -math.inf
    """When Spark was last asked to start servers, in seconds of the monotonic clock."""
    confirmed: bool = False
    """Whether every owner has answered that its subtasks are open.

    The coordinator's own record is not enough: a server that did not get the answer to its
    `OpenSubtask` has no store, and the coordinator holds the subtask for open.
    """

    @property
    def uids(self) -> set[str]:
        """Uids of the run's operators."""
        return {operator.uid for operator in self.operators}
