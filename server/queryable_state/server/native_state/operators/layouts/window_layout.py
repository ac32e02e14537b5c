"""Layout of session windows: a value by key and window."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from queryable_state.server.native_state.operators.layouts.grouped_layout import GroupedLayout
from queryable_state.wire.keys.store_keys import micros_namespace

if TYPE_CHECKING:
    from queryable_state.server.native_state.operators.layouts.key_columns import Columns
    from queryable_state.server.native_state.operators.layouts.raw_table import RawTable
    from queryable_state.server.native_state.operators.state_layout import StateDefinition

ReadSession = Callable[[bytes], tuple[int, int, bytes]]
"""`read(raw_value)` returns start and end in microseconds, and the encoded value."""


class SessionLayout(GroupedLayout):
    """A VALUE in session windows, whose raw keys are the grouping columns and the window's start.

    Namespaces have the microseconds that Spark has: sessions of a key may be closer than a
    millisecond.
    """

    def __init__(self, definition: StateDefinition, table: RawTable, read: ReadSession) -> None:
        super().__init__(definition, table)
        self._read = read

    def _suffix_and_value(
        self, raw_values: Columns, raw_value: bytes, time_ms: int
    ) -> tuple[bytes, bytes] | None:
        start, end, value = self._read(raw_value)
        return micros_namespace(start, end), value

    def _prefix_values(self, columns: Columns) -> Columns:
        return columns
