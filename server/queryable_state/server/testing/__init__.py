"""Test doubles: a stream engine in memory and a coordinator in the test's process."""

from queryable_state.wire.packaging.extras import require_extra

require_extra("server", "queryable_state.server.testing")

from queryable_state.server.testing.coordinator import (
    FakeClock,
    InProcessCoordinator,
    in_process_coordinator,
)
from queryable_state.server.testing.engine import InMemoryEngine

__all__ = ["FakeClock", "InMemoryEngine", "InProcessCoordinator", "in_process_coordinator"]
