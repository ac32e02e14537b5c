"""Rows of streams and states: tuples with named fields, and what functions may pass for them.

Each sequence of field names has its own subclass of `RowTuple`, made once. A row type that was
made of a Python class has rows of that class.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, SupportsIndex, overload

from queryable_state.wire.errors import SerializationError
from queryable_state.wire.schema.python_types import is_named_tuple
from queryable_state.wire.schema.row import Row, RowKind, RowMethods, UnknownFieldError
from queryable_state.wire.schema.type_model import Kind, TypeInfo

if TYPE_CHECKING:
    from queryable_state.wire.errors import QueryableStateError

__all__ = ["Row", "RowTuple", "make_row", "row_class", "row_maker", "row_values"]


class RowTuple(tuple[Any, ...], RowMethods):
    """An immutable `Row` of named fields: `row.name`, `row["name"]`, `row[0]`.

    Equal to the tuple of its values, and to a `Row` of the same names and values. A field named
    like a method (`count`, `index`, `as_dict`) hides the method. A field with a leading
    underscore, or whose name is not an identifier, has no attribute: read it as `row["_name"]`.
    """

    __slots__ = ()
    _fields: ClassVar[tuple[str, ...]] = ()  # type: ignore[misc]  # the names are the class's

    def _asdict(self) -> dict[str, Any]:
        """Names to values, in field order."""
        return dict(zip(self._fields, self, strict=True))

    def set_row_kind(self, row_kind: RowKind) -> None:
        """Raises TypeError unless it is INSERT: elements are insertions."""
        if row_kind != RowKind.INSERT:
            _refuse_change(self)

    def set_field_names(self, field_names: Sequence[str]) -> None:
        """Raises TypeError unless the row has these names already."""
        if tuple(field_names) != self._fields:
            _refuse_change(self)

    def __setitem__(self, key: object, value: object) -> NoReturn:
        _refuse_change(self)

    @overload
    def __getitem__(self, key: SupportsIndex | str) -> Any: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[Any, ...]: ...
    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            try:
                return tuple.__getitem__(self, self._fields.index(key))
            except ValueError:
                raise UnknownFieldError(key) from None
        return tuple.__getitem__(self, key)

    def __repr__(self) -> str:
        pairs = zip(self._fields, self, strict=True)
        return f"Row({', '.join(f'{name}={value!r}' for name, value in pairs)})"

    def __reduce__(self) -> tuple[object, ...]:
        return (make_row, (self._fields, tuple(self)))


Row.register(RowTuple)


def _refuse_change(row: RowTuple) -> NoReturn:
    raise TypeError(
        f"{row!r} is an element of a stream or a state, which cannot be changed: emit a new row, "
        "such as Row(*element)"
    )


def make_row(names: Sequence[str], values: Iterable[Any]) -> RowTuple:
    """The row of these names and values, aligned."""
    return row_class(tuple(names))(values)


@lru_cache(maxsize=1024)
def row_class(names: tuple[str, ...]) -> type[RowTuple]:
    """The class of rows with these fields; calling it with an iterable makes a row."""
    members: dict[str, Any] = {"__slots__": (), "_fields": names}
    # A namedtuple's attributes read any tuple by position, without a Python call.
    positions = namedtuple("positions", [f"f{position}" for position in range(len(names))])  # type: ignore[misc]
    for position, name in enumerate(names):
        if name.isidentifier() and not name.startswith("_"):
            members[name] = vars(positions)[f"f{position}"]
    return type("Row", (RowTuple,), members)


def row_maker(info: TypeInfo) -> Callable[[Iterable[Any]], Any]:
    """A function that makes a value of a ROW or TUPLE from the values of its fields.

    A ROW of a Python class gives instances of the class, any other ROW a `RowTuple`.
    """
    if info.kind == Kind.TUPLE:
        return tuple
    names = tuple(field.name for field in info.fields)
    cls: Any = info.python_class
    if cls is None:
        return row_class(names)
    if is_named_tuple(cls):
        make: Callable[[Iterable[Any]], Any] = cls._make
        return make
    if typing.is_typeddict(cls):
        return lambda values: dict(zip(names, values, strict=True))
    return _dataclass_maker(cls, names)


def _dataclass_maker(cls: Any, names: tuple[str, ...]) -> Callable[[Iterable[Any]], Any]:
    parameters = inspect.signature(cls).parameters.values()
    by_position = [each.name for each in parameters if each.kind == each.POSITIONAL_OR_KEYWORD]
    in_order = tuple(by_position[: len(names)]) == names

    def make(values: Iterable[Any]) -> Any:
        try:
            return cls(*values) if in_order else cls(**dict(zip(names, values, strict=True)))
        except Exception as error:
            raise SerializationError(
                f"class {cls.__qualname__} refused the fields of a row: "
                f"{type(error).__name__}: {error}"
            ) from error

    return make


def row_values(
    info: TypeInfo, path: str, error: type[QueryableStateError]
) -> Callable[[Any], Sequence[Any]]:
    """A function that returns the values of a ROW or TUPLE in the order of its fields.

    It reads tuples and lists by position. It reads by name mappings, dataclasses and objects with
    `asDict()` (a missing field is null, an unknown one is refused), and rows with the same names
    in another order (Spark's, named tuples, `Row`). Any other value raises `error`.
    """
    width = len(info.fields)
    names = tuple(f.name for f in info.fields) if info.kind == Kind.ROW else ()
    known = frozenset(names)
    # By class of dataclass; a class whose fields are the type's is read without a dictionary.
    getters: dict[type, Callable[[Any], Sequence[Any]]] = {}

    def of_mapping(value: Mapping[Any, Any]) -> Sequence[Any]:
        unknown = [key for key in value if key not in known]
        if unknown:
            raise error(f"{path} has no field {unknown[0]!r}; its fields are {', '.join(names)}")
        return [value.get(name) for name in names]

    def of_dataclass(value: Any) -> Sequence[Any]:
        own = [field.name for field in dataclasses.fields(value)]
        if set(own) == known and width > 1:
            getters[value.__class__] = attrgetter(*names)
            return getters[value.__class__](value)
        return of_mapping({name: getattr(value, name) for name in own})

    def of_row(value: Row) -> Sequence[Any]:
        if value.get_row_kind() != RowKind.INSERT:
            raise error(
                f"{path} is a row of kind {value.get_row_kind().name}, but only INSERT rows can be "
                "stored and emitted: put the kind into a field"
            )
        if value._fields is None or not names or value._fields == names:
            return list(value)
        return of_mapping(value.as_dict())

    def values_of(value: Any) -> Sequence[Any]:
        values: Sequence[Any] = value
        if isinstance(value, tuple):
            if value.__class__ is not tuple and names:
                own = getattr(value, "__fields__", None) or getattr(value, "_fields", None)
                if own is not None and tuple(own) != names and frozenset(own) == known:
                    plain = dict(zip(own, tuple(value), strict=True))
                    return [plain[name] for name in names]
        elif value.__class__ is list:
            pass
        elif value.__class__ in getters:
            return getters[value.__class__](value)
        elif isinstance(value, Mapping) and names:
            return of_mapping(value)
        elif isinstance(value, Row):
            values = of_row(value)
        elif names and dataclasses.is_dataclass(value) and not isinstance(value, type):
            return of_dataclass(value)
        elif names and callable(getattr(value, "asDict", None)):
            return of_mapping(value.asDict())
        elif not isinstance(value, list):
            what = "null" if value is None else f"a {type(value).__name__}"
            raise error(f"{path} is {what}, but must be {info}")
        if len(values) != width:
            raise error(f"{path} is {info}: {width} fields, but the value has {len(values)}")
        return values

    return values_of
