"""Layout of session windows: a value by key and window."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

from queryable_state.server.native_state.operators.layouts.grouped_layout import GroupedLayout
from queryable_state.wire.errors import InvalidRequestError, Reason
from queryable_state.wire.keys.store_keys import namespace_end, window_namespace, window_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.server.native_state.operators.layouts.key_columns import Columns
    from queryable_state.server.native_state.operators.layouts.raw_table import RawTable
    from queryable_state.server.native_state.operators.state_layout import StateDefinition

ReadSession = Callable[[bytes], tuple[int, int, bytes]]
"""`read(raw_value)` returns start and end in microseconds, and the encoded value."""


class SessionLayout(GroupedLayout):
    """A VALUE in session windows, whose raw keys are the grouping columns and the window's start.

    Namespaces have milliseconds: they are rounded down, the window in the value is exact. Reads of
    a key that has two sessions in the same milliseconds are refused: one would hide the other.
    """

    def __init__(self, definition: StateDefinition, table: RawTable, read: ReadSession) -> None:
        super().__init__(definition, table)
        self._read = read

    def _suffix_and_value(
        self, raw_values: Columns, raw_value: bytes, time_ms: int
    ) -> tuple[bytes, bytes] | None:
        start, end, value = self._read(raw_value)
        return window_namespace(start // 1000, end // 1000), value

    def _prefix_values(self, columns: Columns) -> Columns:
        return columns

    def _records(
        self, wire_key: bytes, raw_records: Iterator[tuple[Columns, bytes]], time_ms: int
    ) -> list[tuple[bytes, bytes]]:
        records = super()._records(wire_key, raw_records, time_ms)
        for (record_key, _), (next_key, _) in pairwise(records):
            if record_key == next_key:
                begin = len(wire_key)
                window = window_of(record_key[begin : namespace_end(record_key, begin)])
                name = self.definition.queryable_name or "sessions"
                raise InvalidRequestError(
                    f"{name}: a key has several sessions whose bounds differ by "
                    f"less than a millisecond, {window} in milliseconds: windows of look-ups "
                    "have milliseconds and cannot tell them apart; read them with Spark's "
                    "`statestore` reader, or use a gap of at least a millisecond",
                    reason=Reason.UNSUPPORTED,
                )
        return records
