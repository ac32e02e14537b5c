"""PyFlink's `Row`: values with or without field names, and the kind of a change.

The elements of a stream and the rows of a state are rows, too, as immutable tuples: `wire.rows`
makes them. Both share `RowMethods`, and `isinstance(element, Row)` is true.
"""

from __future__ import annotations

from abc import ABCMeta
from enum import Enum
from typing import TYPE_CHECKING, Any, SupportsIndex

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class RowKind(Enum):
    """The change that a row describes."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    def __str__(self) -> str:
        return ("+I", "-U", "+U", "-D")[self.value]


class UnknownFieldError(KeyError, ValueError):
    """A row has no field of this name."""


class RowMethods:
    """The methods of all rows, over `_fields` and the iterated values."""

    __slots__ = ()
    _fields: tuple[str, ...] | None

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:
        """Names to values; `recursive` converts rows within lists, maps and rows, too.

        Raises TypeError for a row without names.
        """
        names = self._fields
        values: tuple[Any, ...] = tuple(self)  # type: ignore[arg-type]  # rows are iterable
        if names is None:
            raise TypeError(f"{self!r} has no field names: call set_field_names")
        if recursive:
            values = tuple(map(_as_dicts, values))
        return dict(zip(names, values, strict=False))

    def get_fields_by_names(self, names: Sequence[str]) -> list[Any]:
        """The values of these fields, in this order; all values of a row without names.

        Raises UnknownFieldError for a name that the row does not have.
        """
        values: list[Any] = list(self)  # type: ignore[call-overload]  # rows are iterable
        if self._fields is None:
            return values
        by_name = dict(zip(self._fields, values, strict=False))
        unknown = [name for name in names if name not in by_name]
        if unknown:
            raise UnknownFieldError(f"the row has no fields {unknown}: it has {self._fields}")
        return [by_name[name] for name in names]

    def get_row_kind(self) -> RowKind:
        """The change that the row describes; INSERT for an element of a stream."""
        return RowKind.INSERT


def _as_dicts(value: Any) -> Any:
    if isinstance(value, RowMethods) and value._fields is not None:
        return RowMethods.as_dict(value, recursive=True)
    if isinstance(value, list):
        return [_as_dicts(item) for item in value]
    if isinstance(value, dict):
        return {key: _as_dicts(item) for key, item in value.items()}
    return value


class Row(RowMethods, metaclass=ABCMeta):
    """A row: `Row(1, "a")`, or with names `Row(id=1, name="a")`.

    As in PyFlink, fields given by keyword are sorted by name, a row of strings is a factory of
    rows with these names (`Person = Row("name", "age")`, `Person("Alice", 11)`), `in` searches the
    values, and rows are equal if names, kind and values are.
    """

    __slots__ = ("_fields", "_row_kind", "_values")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError("Row takes either values or named values, not both")
        self._fields: tuple[str, ...] | None = tuple(sorted(kwargs)) if kwargs else None
        self._values = [kwargs[name] for name in sorted(kwargs)] if kwargs else list(args)
        self._row_kind = RowKind.INSERT

    @staticmethod
    def of_kind(row_kind: RowKind, *args: Any, **kwargs: Any) -> Row:
        """A row of values, or of named values, that describes this change."""
        row = Row(*args, **kwargs)
        row.set_row_kind(row_kind)
        return row

    def get_row_kind(self) -> RowKind:
        """The change that the row describes."""
        return self._row_kind

    def set_row_kind(self, row_kind: RowKind) -> None:
        """Sets the change that the row describes."""
        self._row_kind = row_kind

    def set_field_names(self, field_names: Sequence[str]) -> None:
        """Names the fields, in order."""
        self._fields = tuple(field_names)

    def __call__(self, *args: Any) -> Row:
        """Creates a row whose names are the values of this one."""
        if len(args) > len(self):
            raise ValueError(f"{self!r} has {len(self)} fields, but {len(args)} values were given")
        return _made(tuple(self._values), args, self._row_kind)

    def __getitem__(self, key: SupportsIndex | slice | str) -> Any:
        return self._values[self._index(key) if isinstance(key, str) else key]

    def __setitem__(self, key: SupportsIndex | slice | str, value: Any) -> None:
        self._values[self._index(key) if isinstance(key, str) else key] = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._values[self._index(name)]
        except UnknownFieldError:
            raise AttributeError(name) from None

    def _index(self, name: str) -> int:
        try:
            return (self._fields or ()).index(name)
        except ValueError:
            raise UnknownFieldError(name) from None

    def __contains__(self, item: object) -> bool:
        return item in self._values

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RowMethods):
            return NotImplemented
        # A field may hide the method of an element, which is always an insertion.
        kind = RowKind.INSERT if isinstance(other, tuple) else other.get_row_kind()
        values: Iterable[Any] = other  # type: ignore[assignment]  # rows are iterable
        return (self._fields, self._row_kind, self._values) == (other._fields, kind, list(values))

    def __hash__(self) -> int:
        return hash(tuple(self._values))

    def __repr__(self) -> str:
        if self._fields is None:
            return f"<Row({', '.join(map(repr, self._values))})>"
        pairs = zip(self._fields, self._values, strict=False)
        return f"Row({', '.join(f'{name}={value!r}' for name, value in pairs)})"

    def __reduce__(self) -> tuple[object, ...]:
        return (_made, (self._fields, tuple(self._values), self._row_kind))


def _made(names: Sequence[str] | None, values: Iterable[Any], kind: RowKind) -> Row:
    row = Row(*values)
    if names is not None:
        row.set_field_names(names)
    row.set_row_kind(kind)
    return row
