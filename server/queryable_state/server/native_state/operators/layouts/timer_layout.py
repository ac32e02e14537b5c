"""Layout of timers: one raw record a timer, by grouping key and time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.native_state.operators.layouts.grouped_layout import GroupedLayout
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE
from queryable_state.wire.keys.timer_keys import timer_element

if TYPE_CHECKING:
    from queryable_state.server.native_state.operators.layouts.key_columns import Columns
    from queryable_state.server.native_state.operators.layouts.raw_table import RawTable
    from queryable_state.server.native_state.operators.state_layout import StateDefinition
    from queryable_state.wire.keys.timer_keys import Clock


class TimerLayout(GroupedLayout):
    """Layout of a TIMER state: each raw key is the struct of the grouping key, then the time.

    Milliseconds are Spark's own resolution of timers, as of TTL and watermarks.
    """

    def __init__(self, definition: StateDefinition, table: RawTable, clock: Clock) -> None:
        super().__init__(definition, table)
        self._clock = clock

    def _suffix_and_value(
        self, raw_values: Columns, raw_value: bytes, time_ms: int
    ) -> tuple[bytes, bytes] | None:
        return VOID_NAMESPACE + timer_element(self._clock, raw_values[1]), b""

    def _prefix_values(self, columns: Columns) -> Columns:
        return (columns,)
