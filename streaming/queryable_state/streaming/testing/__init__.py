"""Test harnesses for operators without Spark: they run batches of rows from lists.

State is stored in memory, or on real state servers with `testing.local_cluster`.
"""

from queryable_state.streaming.testing.broadcast_harness import BroadcastOperatorHarness
from queryable_state.streaming.testing.chain_harness import ChainHarness
from queryable_state.streaming.testing.in_memory_state import InMemoryStateBackend
from queryable_state.streaming.testing.keyed_harness import KeyedOperatorHarness
from queryable_state.streaming.testing.operator_harness import OperatorHarness
from queryable_state.streaming.testing.operator_snapshot import OperatorSnapshot
from queryable_state.streaming.testing.two_input_harness import TwoInputOperatorHarness
from queryable_state.streaming.testing.unkeyed_harness import UnkeyedOperatorHarness
from queryable_state.streaming.testing.windowed_harness import WindowedOperatorHarness

__all__ = [
    "BroadcastOperatorHarness",
    "ChainHarness",
    "InMemoryStateBackend",
    "KeyedOperatorHarness",
    "OperatorHarness",
    "OperatorSnapshot",
    "TwoInputOperatorHarness",
    "UnkeyedOperatorHarness",
    "WindowedOperatorHarness",
]
