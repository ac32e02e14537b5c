"""Test harness for keyed operators without Spark: runs batches of rows from lists.

State is stored in memory, or on real state servers with `testing.local_cluster`.
"""

from queryable_state.streaming.testing.broadcast_harness import BroadcastOperatorHarness
from queryable_state.streaming.testing.in_memory_state import InMemoryStateBackend
from queryable_state.streaming.testing.operator_harness import KeyedOperatorHarness

__all__ = ["BroadcastOperatorHarness", "InMemoryStateBackend", "KeyedOperatorHarness"]
