"""Columns of a stream, and the type of the elements that functions receive."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from queryable_state.server.settings.environment_settings import joined
from queryable_state.streaming.runtime.columns.event_time import EVENT_TIME_COLUMN, EVENT_TIME_FIELD
from queryable_state.streaming.runtime.operators.spec import VALUE_COLUMN
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.schema.types import Field, Kind, TypeInfo, type_info

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql.types import StructType

_TIMESTAMPS = frozenset({Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ})
WATERMARK: Final = "spark.watermarkDelayMs"
"""Metadata key of the column of `withWatermark`, and of columns derived only from it."""


@dataclass(frozen=True)
class Columns:
    """Names and types of a stream's columns.

    A column whose type has no `TypeInfo` (an interval, a collated string) is listed by name. It
    is refused when an operator needs its values.
    """

    types: Mapping[str, TypeInfo | InvalidRequestError]
    bare: bool = False
    """True if the elements are the values of the only column, not rows."""
    event_time: str | None = None
    """The event-time column of the DataFrame's watermark; behind functions the internal column,
    which is not among `types`; None if there is no event time, or several."""
    python_class: type | None = None
    """The class that elements of all columns are instances of; None: `Row`."""

    def __post_init__(self) -> None:
        """Raises InvalidRequestError if a column has the name of the internal one."""
        for name in self.types:
            if name.lower() == EVENT_TIME_COLUMN:
                raise InvalidRequestError(
                    f"the column name {name!r} is reserved for the timestamps of elements: rename "
                    "the column"
                )

    @staticmethod
    def of_schema(schema: StructType) -> Columns:
        """The columns of a user's DataFrame."""
        types: dict[str, TypeInfo | InvalidRequestError] = {}
        for column in schema.fields:
            if column.name in types:
                raise InvalidRequestError(
                    f"the DataFrame has two columns named {column.name!r}: rename one of them"
                )
            try:
                types[column.name] = type_info(column.dataType)
            except InvalidRequestError as problem:
                types[column.name] = problem
        event_times = [c.name for c in schema.fields if WATERMARK in (c.metadata or {})]
        return Columns(types, event_time=event_times[0] if len(event_times) == 1 else None)

    @staticmethod
    def of_output(output_type: TypeInfo) -> Columns:
        """The columns of elements of this type, which have no timestamps."""
        if output_type.kind == Kind.ROW:
            return Columns(
                {field.name: field.type for field in output_type.fields},
                python_class=output_type.python_class,
            )
        return Columns({VALUE_COLUMN: output_type}, bare=True)

    def with_timestamps_of(self, *inputs: Columns) -> Columns:
        """These columns for the outputs of a function: an output has the timestamp of the element
        that the function emitted it for, if one of the inputs has timestamps."""
        timed = any(each.timestamps for each in inputs)
        return replace(self, event_time=EVENT_TIME_COLUMN if timed else None)

    def with_internal_time(self) -> Columns:
        """These columns for outputs that all have a timestamp, those of windows."""
        return replace(self, event_time=EVENT_TIME_COLUMN)

    @property
    def has_internal_time(self) -> bool:
        """True if the timestamps of the elements are in the internal column."""
        return self.event_time == EVENT_TIME_COLUMN

    @property
    def timestamps(self) -> str:
        """The column with the timestamps of the elements; empty: they have none.

        The event-time column may also be a window, which is not the timestamp of an element.
        """
        if self.event_time is None or self.has_internal_time:
            return self.event_time or ""
        found = self.types[self.event_time]
        is_time = isinstance(found, TypeInfo) and found.kind in _TIMESTAMPS
        return self.event_time if is_time else ""

    @property
    def names(self) -> tuple[str, ...]:
        """All columns, in order."""
        return tuple(self.types)

    def type_of_stored(self, name: str, purpose: str) -> TypeInfo:
        """Type of a column of the stream's rows: as `type_of`, or of the internal column."""
        is_internal = self.has_internal_time and name == EVENT_TIME_COLUMN
        return EVENT_TIME_FIELD.type if is_internal else self.type_of(name, purpose)

    def type_of(self, name: str, purpose: str) -> TypeInfo:
        """Type of a column; raises InvalidRequestError, naming `purpose`, if it has none."""
        if name not in self.types:
            raise InvalidRequestError(
                f"{purpose}: column {name!r} does not exist; the columns are: {joined(self.names)}",
                candidates=self.names,
            )
        found = self.types[name]
        if isinstance(found, InvalidRequestError):
            raise InvalidRequestError(
                f"{purpose}: column {name!r} cannot be used: {found}. Cast it or leave it out with "
                "select()"
            )
        return found

    def element_type(self, names: Sequence[str], purpose: str) -> TypeInfo:
        """Type of the elements that consist of these columns."""
        if self.bare:
            return self.type_of(names[0], purpose)
        fields = tuple(Field(name, self.type_of(name, purpose)) for name in names)
        whole = tuple(names) == self.names
        return TypeInfo(Kind.ROW, fields=fields, python_class=self.python_class if whole else None)

    def free_name(self, wanted: str) -> str:
        """An unused column name; names are compared case-insensitively."""
        return free_name(wanted, self.names)


def free_name(wanted: str, taken: Iterable[str]) -> str:
    """`wanted`, with underscores appended until no taken name equals it."""
    lower = {name.lower() for name in taken}
    while wanted.lower() in lower:
        wanted += "_"
    return wanted
