"""Run keyed operators without Spark: batch by batch, on lists of rows."""

from queryable_state.streaming.testing.in_memory_state import InMemoryStateBackend
from queryable_state.streaming.testing.operator_harness import KeyedOperatorHarness

__all__ = ["InMemoryStateBackend", "KeyedOperatorHarness"]
