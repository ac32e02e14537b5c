"""A run of a query whose stored state is kept open."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.server.coordinator.model.operators import OperatorLayout


@dataclass(kw_only=True)
class IdleRun:
    """What is to be open of one run, and how far that is known to be so."""

    query_id: bytes
    run_id: bytes
    config_id: str
    operators: Sequence[OperatorLayout]
    servers_asked_s: float = -math.inf
    """When servers were last asked for, on the monotonic clock."""
    confirmed: bool = False
    """Whether every owner has said that its subtasks are open. An opening the coordinator has
    noted may have come to nothing on its server, which never heard so: then this is how to know."""

    @property
    def uids(self) -> set[str]:
        return {operator.uid for operator in self.operators}
