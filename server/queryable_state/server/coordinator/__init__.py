"""The coordinator: the only source of placement, epochs and commits, in the driver."""

from queryable_state.server.coordinator.engine import BatchClocks, Engine, QueryInfo

__all__ = ["BatchClocks", "Engine", "QueryInfo"]
