"""Rolling aggregates of Flink: reduce functions over whole elements.

`sum`, `min` and `max` change one field of the key's first element; `min_by` and `max_by` keep the
whole element with the extreme field, the first of equal ones.
"""

from __future__ import annotations

import dataclasses
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from queryable_state.streaming.functions import ReduceFunction
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.rows import row_maker, row_values
from queryable_state.wire.schema.types import Kind, TypeInfo

if TYPE_CHECKING:
    from collections.abc import Sequence

_SUMMABLE = frozenset(
    {Kind.BYTE, Kind.SHORT, Kind.INT, Kind.LONG, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL}
)
_WITHOUT_ORDER = frozenset({Kind.MAP, Kind.LIST})


class Rolling(StrEnum):
    """The rolling aggregates."""

    SUM = "sum"
    MIN = "min"
    MAX = "max"
    MIN_BY = "min_by"
    MAX_BY = "max_by"


class RollingAggregate(ReduceFunction[Any]):
    """A rolling aggregate of one field of elements of a type.

    The field is given by position or name. The only field of a value that is not a row is 0.
    """

    def __init__(self, kind: Rolling, position: int | str, element: TypeInfo) -> None:
        if isinstance(position, bool) or not isinstance(position, int | str):
            raise TypeError(
                "The field position must be of int or str type to locate the value to calculate "
                f"for min, max, min_by, max_by and sum. The given type is: {type(position)}"
            )
        self._kind = kind
        self._element = element
        self._place: int | str | None = position
        if element.kind in (Kind.ROW, Kind.TUPLE):
            self._place = _place(kind, position, element)
            field = element.fields[self._place].type
            self._values = row_values(element, "element", InvalidRequestError)
            self._make = row_maker(element)
        elif element.kind == Kind.PICKLED:
            return
        else:
            if position != 0:
                raise TypeError(
                    f"{kind}({position!r}): the elements are {element}, whose only field is 0"
                )
            self._place, field = None, element
        _check(kind, position, field)

    def reduce(self, value1: Any, value2: Any) -> Any:
        if self._element.kind in (Kind.ROW, Kind.TUPLE):
            return self._reduced_rows(value1, value2)
        if isinstance(value1, tuple | list) or hasattr(value1, "_fields"):
            return self._reduced_objects(value1, value2)
        if self._element.kind == Kind.PICKLED and self._place != 0:
            raise TypeError(
                f"{self._kind}({self._place!r}): a {type(value1).__name__} has no such field"
            )
        return self._reduced(value1, value2)

    def _reduced_rows(self, value1: Any, value2: Any) -> Any:
        assert isinstance(self._place, int)
        one, two = list(self._values(value1)), self._values(value2)
        if self._kind in (Rolling.MIN_BY, Rolling.MAX_BY):
            first, second = one[self._place], two[self._place]
            return value1 if self._reduced(first, second) is first else value2
        one[self._place] = self._reduced(one[self._place], two[self._place])
        return self._make(one)

    def _reduced_objects(self, value1: Any, value2: Any) -> Any:
        """The aggregate of pickled tuples, lists and rows."""
        place: Any = self._place
        first, second = value1[place], value2[place]
        reduced = self._reduced(first, second)
        if self._kind in (Rolling.MIN_BY, Rolling.MAX_BY):
            return value1 if reduced is first else value2
        return _with_field(value1, place, reduced)

    def _reduced(self, first: Any, second: Any) -> Any:
        """The aggregate of two fields; null counts as no value."""
        if first is None or second is None:
            return second if first is None else first
        match self._kind:
            case Rolling.SUM:
                return first + second
            case Rolling.MIN | Rolling.MIN_BY:
                return second if second < first else first
            case Rolling.MAX | Rolling.MAX_BY:
                return second if second > first else first


def _with_field(value: Any, place: Any, field: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(value, **{place: field})
    if type(value) is tuple:
        return (*value[:place], field, *value[place + 1 :])
    replaced: Any = getattr(value, "_replace", None)
    if replaced is not None:
        name = place if isinstance(place, str) else value._fields[place]
        return replaced(**{name: field})
    value[place] = field
    return value


def _place(kind: Rolling, position: int | str, element: TypeInfo) -> int:
    names: Sequence[str] = [
        field.name or f"f{number}" for number, field in enumerate(element.fields)
    ]
    if isinstance(position, str) and position in names:
        return names.index(position)
    if isinstance(position, int) and 0 <= position < len(names):
        return position
    raise InvalidRequestError(
        f"{kind}({position!r}): the elements have no such field; their fields are "
        f"{', '.join(names)}",
        candidates=tuple(names),
    )


def _check(kind: Rolling, position: int | str, field: TypeInfo) -> None:
    has_none = field.kind not in _SUMMABLE if kind is Rolling.SUM else field.kind in _WITHOUT_ORDER
    if has_none and field.kind != Kind.PICKLED:
        raise InvalidRequestError(f"{kind}({position!r}): a field of type {field} has no {kind}")
