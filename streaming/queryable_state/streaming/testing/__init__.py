"""Run keyed operators without Spark: batch by batch, on lists of rows.

State is kept in memory, or on real state servers: `testing.local_cluster`.
"""

from queryable_state.streaming.testing.in_memory_state import InMemoryStateBackend
from queryable_state.streaming.testing.operator_harness import KeyedOperatorHarness

__all__ = ["InMemoryStateBackend", "KeyedOperatorHarness"]
