"""Time windows as parts of keys: the type that Spark groups by, and `TimeWindow` in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.wire.errors import KeyTypeError
from queryable_state.wire.keys.time_window import TimeWindow
from queryable_state.wire.rows import row_values
from queryable_state.wire.schema.type_model import Kind, TypeInfo
from queryable_state.wire.values import scalars

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_TIMES = {Kind.TIMESTAMP: scalars.instant_of, Kind.TIMESTAMP_NTZ: scalars.wall_time_of}


def is_window_type(info: TypeInfo) -> bool:
    """True for ROW(start, end) of two times, which is Spark's type of a window."""
    names = tuple(field.name for field in info.fields)
    return names == ("start", "end") and all(field.type.kind in _TIMES for field in info.fields)


def key_values(info: TypeInfo, path: str) -> Callable[[Any], Sequence[Any]]:
    """Same as `row_values` for the ROW or TUPLE of a key, which may be a `TimeWindow`."""
    values_of = row_values(info, path, KeyTypeError)
    if not is_window_type(info):
        return values_of
    start_of, end_of = (_TIMES[field.type.kind] for field in info.fields)

    def of_window(value: Any) -> Sequence[Any]:
        if not isinstance(value, TimeWindow):
            return values_of(value)
        try:
            return start_of(value.start_us), end_of(value.end_us)
        except ValueError as problem:
            raise KeyTypeError(f"{path} cannot be {value}: {problem}") from None

    return of_window
