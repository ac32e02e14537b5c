"""The coordinator: the only source of placement, epochs and commits, in the driver."""

from queryable_state.server.coordinator.batches.catalog import JobView
from queryable_state.server.coordinator.coordinator import Coordinator
from queryable_state.server.coordinator.model.engine import BatchClocks, Engine, QueryInfo
from queryable_state.server.coordinator.model.job_config import JobConfig
from queryable_state.server.coordinator.model.operators import OperatorLayout
from queryable_state.server.coordinator.model.queryable_names import (
    NameClaim,
    check_queryable_names,
)
from queryable_state.server.coordinator.status.reports import (
    BatchReport,
    RunFailure,
    SourceReport,
)

__all__ = [
    "BatchClocks",
    "BatchReport",
    "Coordinator",
    "Engine",
    "JobConfig",
    "JobView",
    "NameClaim",
    "OperatorLayout",
    "QueryInfo",
    "RunFailure",
    "SourceReport",
    "check_queryable_names",
]
