"""Arrow columns of the pages of a scan. Imported only where the package pyarrow is installed."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from queryable_state.client._reading.states import MapState, ValueState
from queryable_state.v1 import registration_pb2
from queryable_state.wire.arrow.arrow_types import arrow_type, field_names
from queryable_state.wire.arrow.arrow_values import to_arrow_value
from queryable_state.wire.errors import SerializationError
from queryable_state.wire.keys.time_window import has_micros, is_windowed
from queryable_state.wire.rows import row_values
from queryable_state.wire.schema.type_model import Kind, TypeInfo
from queryable_state.wire.values.pickled import PickledValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from queryable_state.client._reading.states import KvState
    from queryable_state.client._scans.page import Page
    from queryable_state.wire.keys.pending_timers import PendingTimer

_StateKind = registration_pb2.StateKind
_TIMERS = pa.list_(
    pa.struct(
        [
            pa.field("clock", pa.string(), nullable=False),
            pa.field("timestamp_ms", pa.int64(), nullable=False),
            pa.field("window_start_ms", pa.int64()),
            pa.field("window_end_ms", pa.int64()),
        ]
    )
)
_INSTANT_MS = pa.timestamp("ms", tz="UTC")
_INSTANT_US = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class _Column:
    name: str
    type: pa.DataType
    convert: Callable[[Any], Any] | None = None
    """Makes a value for Arrow of a Python value that is not None; None: they are the same."""

    def array(self, values: Sequence[Any]) -> pa.Array:
        """The values as an array; None is null."""
        convert = self.convert
        if convert is not None:
            values = [None if value is None else convert(value) for value in values]
        return pa.array(values, self.type)


class ArrowColumns:
    """Columns of the keys, windows and values of a registered state.

    Keys and values of a ROW or TUPLE have a column for each field.
    """

    def __init__(
        self,
        registration: registration_pb2.StateRegistration,
        value_type: TypeInfo | None,
        *,
        one_window: bool,
        keys_only: bool,
    ) -> None:
        """`value_type` is the type that values are delivered as; None: the registered one.

        `one_window`: the scan is of one window, so its keys have none.
        """
        timers = registration.kind == _StateKind.TIMER
        self._windowed = is_windowed(registration) and not one_window and not timers
        self._keys = _Fields("key", TypeInfo.from_proto(registration.key_type), prefix="key_")
        self._micros = has_micros(registration)
        instant = _INSTANT_US if self._micros else _INSTANT_MS
        self._windows = (
            [_Column("window_start", instant), _Column("window_end", instant)]
            if self._windowed
            else []
        )
        self._values: _Fields | None = None
        if not keys_only:
            taken = {column.name for column in (*self._keys.columns, *self._windows)}
            self._values = (
                _TimerFields()
                if timers
                else _Fields("value", _whole_type(registration, value_type), taken=taken)
            )
        values = () if self._values is None else self._values.columns
        self.schema: pa.Schema = pa.schema(
            [(each.name, each.type) for each in (*self._keys.columns, *self._windows, *values)]
        )

    def batch(self, page: Page) -> pa.RecordBatch:
        """The columns of one page; raises the error of a state that did not fit into an answer."""
        keys = [key for key, _ in page]
        arrays = []
        if self._windowed:
            starts, ends = self._windows
            micros = self._micros
            arrays = [
                starts.array([window.start_us if micros else window.start for _, window in keys]),
                ends.array([window.end_us if micros else window.end for _, window in keys]),
            ]
            keys = [key for key, _ in keys]
        arrays = [*self._keys.arrays(keys), *arrays]
        if self._values is not None:
            arrays += self._values.arrays([_whole_value(state) for _, state in page])
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


class _Fields:
    """Columns of values of one type: one for each field of a ROW or TUPLE, else a single one."""

    def __init__(
        self, name: str, info: TypeInfo, *, prefix: str = "", taken: set[str] | None = None
    ) -> None:
        """`prefix` is put before the names of fields; without one, `name` and an underscore are put
        before the names that are `taken`."""
        self._row_values: Callable[[Any], Sequence[Any]] | None = None
        if info.kind not in (Kind.ROW, Kind.TUPLE) or not info.fields:
            self.columns = [_Column(name, arrow_type(info), to_arrow_value(info, _pickle))]
            return
        self._row_values = row_values(info, name, SerializationError)
        names = [
            f"{name}_{field}" if not prefix and field in (taken or ()) else f"{prefix}{field}"
            for field in field_names(info)
        ]
        self.columns = [
            _Column(name, arrow_type(field.type), to_arrow_value(field.type, _pickle))
            for name, field in zip(names, info.fields, strict=True)
        ]

    def arrays(self, values: Sequence[Any]) -> Iterator[pa.Array]:
        """An array for each column."""
        of_row = self._row_values
        if of_row is None:
            yield self.columns[0].array(values)
            return
        nulls = [None] * len(self.columns)
        rows = [nulls if value is None else of_row(value) for value in values]
        for position, column in enumerate(self.columns):
            yield column.array([row[position] for row in rows])


class _TimerFields(_Fields):
    def __init__(self) -> None:
        self._row_values = None
        self.columns = [_Column("timers", _TIMERS, _timer_structs)]


def _timer_structs(timers: Sequence[PendingTimer]) -> list[dict[str, Any]]:
    return [
        {
            "clock": timer.clock.name,
            "timestamp_ms": timer.timestamp_ms,
            "window_start_ms": None if timer.window is None else timer.window.start,
            "window_end_ms": None if timer.window is None else timer.window.end,
        }
        for timer in timers
    ]


def _whole_type(
    registration: registration_pb2.StateRegistration, value_type: TypeInfo | None
) -> TypeInfo:
    """The type of what `_whole_value` returns for a state of this registration."""
    newest = max(registration.value_types, key=lambda version: version.version)
    value = value_type or TypeInfo.from_proto(newest.type)
    if registration.kind == _StateKind.LIST:
        return TypeInfo(Kind.LIST, element=value)
    if registration.kind == _StateKind.MAP:
        key = TypeInfo.from_proto(registration.map_key_type)
        return TypeInfo(Kind.MAP, key=key, element=value)
    return value


def _whole_value(state: KvState | None) -> Any:
    assert state is not None
    if isinstance(state, MapState):
        return dict(state.items())
    return state.value() if isinstance(state, ValueState) else state.get()


def _pickle(value: Any) -> bytes:
    # A client that unpickles has loaded the object.
    return value if isinstance(value, PickledValue) else pickle.dumps(value)
