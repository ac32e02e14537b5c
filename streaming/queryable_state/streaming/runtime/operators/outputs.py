"""Buffer of a function's outputs, converted to Arrow batches of the operator's output type."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from queryable_state.streaming.functions import UserFunctionError
from queryable_state.streaming.runtime.columns.arrow_types import to_arrow_value
from queryable_state.streaming.runtime.columns.event_time import EVENT_TIME_COLUMN
from queryable_state.streaming.runtime.operators.spec import columns_of
from queryable_state.streaming.runtime.pickling import pickled
from queryable_state.wire.arrow.arrow_types import arrow_schema
from queryable_state.wire.errors import SerializationError
from queryable_state.wire.rows import row_class, row_values
from queryable_state.wire.schema.types import Field, Kind
from queryable_state.wire.values.normal_form import is_mutable, normaliser
from queryable_state.wire.values.value_codec import ValueCodec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from queryable_state.streaming.runtime.columns.event_time import CurrentTime
    from queryable_state.wire.schema.types import TypeInfo

_INTEGERS = frozenset((Kind.BYTE, Kind.SHORT, Kind.INT, Kind.LONG))
# For these types Arrow silently truncates or reinterprets some values: a float in a list of
# integers, 1e39, a date with a time, a timestamp with or without a zone.
_CHECKED = frozenset(
    (
        Kind.FLOAT,
        Kind.DATE,
        Kind.TIMESTAMP,
        Kind.TIMESTAMP_NTZ,
        Kind.TIME,
        Kind.INSTANT,
        Kind.BIG_INT,
        Kind.LIST,
        Kind.MAP,
        Kind.ROW,
        Kind.TUPLE,
    )
)
_UNFIT = (
    pa.ArrowException,
    SerializationError,
    TypeError,
    ValueError,
    AttributeError,
    OverflowError,
)


class Outputs:
    """Collects outputs in `rows` and converts them to batches with a bounded number of rows."""

    def __init__(
        self, output: TypeInfo | None, most_rows: int, where: str, *, timed: bool = False
    ) -> None:
        """`timed`: the batches have the internal event-time column, as the last one."""
        self.rows: Final[list[Any]] = []
        self.times: Final[list[int | None] | None] = [] if timed else None
        """The timestamp of each row; None if the batches have none."""
        self._where = where
        self._limit = most_rows
        self._fields: Sequence[Field] = () if output is None else columns_of(output)
        self._schema = arrow_schema(self._fields)
        self._converters = [_converter(field.type) for field in self._fields]
        self._names = tuple(field.name for field in self._fields)
        self._ordered_types: set[type] = {tuple, row_class(self._names)}
        if output is not None and issubclass(output.python_class or object, tuple):
            self._ordered_types |= {output.python_class or tuple}
        self._is_row = output is not None and output.kind == Kind.ROW
        self._in_order = (
            row_values(output, "output", SerializationError)
            if output is not None and self._is_row
            else None
        )

    @property
    def is_full(self) -> bool:
        """True if the buffered rows fill one batch."""
        return len(self.rows) >= self._limit

    def full_batches(self) -> Iterator[pa.RecordBatch]:
        """Batches of all buffered rows, once they fill one batch."""
        if self.is_full:
            yield from self.all_batches()

    def all_batches(self) -> Iterator[pa.RecordBatch]:
        """Batches of all buffered rows."""
        rows, times = self.drain()
        for start in range(0, len(rows), self._limit):
            batch = self.batch(rows[start : start + self._limit])
            if times is not None:
                made = pa.array(times[start : start + self._limit], pa.int64())
                batch = batch.append_column(EVENT_TIME_COLUMN, made)
            yield batch

    def drain(self) -> tuple[list[Any], list[int | None] | None]:
        """Removes all buffered rows; returns them, and their timestamps if there are any."""
        # Callers hold on to the lists while they are emptied and filled again.
        rows, times = self.rows.copy(), None if self.times is None else self.times.copy()
        self.rows.clear()
        if self.times is not None:
            self.times.clear()
        return rows, times

    def extender(self, time: CurrentTime) -> Callable[[Iterable[Any]], object]:
        """A function that adds outputs of the current element."""
        rows, times = self.rows, self.times
        if times is None:
            return rows.extend

        def extend(outputs: Iterable[Any]) -> None:
            known = len(rows)
            rows.extend(outputs)
            times.extend([time.ms] * (len(rows) - known))

        return extend

    def appender(self, time: CurrentTime) -> Callable[[Any], object]:
        """A function that adds an output of the current element."""
        rows, times = self.rows, self.times
        if times is None:
            return rows.append

        def append(output: Any) -> None:
            rows.append(output)
            times.append(time.ms)

        return append

    def take(self, outputs: Iterator[Any], most: int, time: CurrentTime) -> list[Any]:
        """Adds at most this many outputs of a lazy iterator, which moves `time`; returns them."""
        if self.times is None:
            taken = list(islice(outputs, most))
        else:
            taken = []
            for output in islice(outputs, most):
                taken.append(output)
                self.times.append(time.ms)
        self.rows.extend(taken)
        return taken

    def batch(self, rows: list[Any]) -> pa.RecordBatch:
        """One batch of these rows."""
        columns: Sequence[Sequence[Any]]
        if self._is_row:
            columns = self._columns(rows)
        else:
            columns = [rows]
        arrays = [self._array(position, column) for position, column in enumerate(columns)]
        if not self._names:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _columns(self, rows: list[Any]) -> list[tuple[Any, ...]]:
        """The columns of rows, in the order of the output's fields."""
        if set(map(type, rows)) <= self._ordered_types:
            try:
                columns = list(zip(*rows, strict=True))
            except ValueError:
                # The rows differ in length.
                columns = []
            if len(columns) == len(self._names):
                return columns
        in_order = self._in_order
        assert in_order is not None
        try:
            return list(zip(*map(in_order, rows), strict=True))
        except SerializationError as problem:
            raise UserFunctionError(
                f"{self._where}: the function emitted a value that is not a row of its output type "
                f"({', '.join(f'{f.name} {f.type}' for f in self._fields)}): {problem}. Yield "
                "tuples or rows of the fields; a function that returns must return an iterable "
                "of outputs"
            ) from problem

    def _array(self, position: int, column: Sequence[Any]) -> pa.Array:
        field, convert = self._fields[position], self._converters[position]
        try:
            if convert is not None:
                column = [None if value is None else convert(value) for value in column]
            wanted = self._schema.field(position).type
            if field.type.kind in _INTEGERS:
                found = pa.array(column)
                if pa.types.is_int64(found.type):
                    return found.cast(wanted)
                if pa.types.is_floating(found.type):
                    # Arrow would silently truncate the fraction.
                    raise TypeError("a float is not an integer")
            return pa.array(column, type=wanted)
        except _UNFIT as problem:
            raise UserFunctionError(
                f"{self._where}: the output column {field.name!r} is {field.type}, but one of "
                f"{len(column)} outputs does not fit: {problem}"
            ) from problem


def _converter(info: TypeInfo) -> Callable[[Any], Any] | None:
    """Converts an output for Arrow; None if no conversion is needed.

    For types that Arrow does not check strictly, the value is checked like a state value.
    """
    to_arrow = to_arrow_value(info)
    if info.kind not in _CHECKED:
        return to_arrow
    codec = ValueCodec.of(info, pickler=pickled, unpickle=True)
    normalise = codec.read_back if is_mutable(info) else normaliser(info, codec.read_back)
    if to_arrow is None:
        return normalise
    return lambda value: to_arrow(normalise(value))
