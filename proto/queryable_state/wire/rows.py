"""Rows: tuples with named fields.

Each sequence of field names has its own subclass of `Row`, made once.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, SupportsIndex, overload

from queryable_state.wire.schema.type_model import Kind, TypeInfo

if TYPE_CHECKING:
    from queryable_state.wire.errors import QueryableStateError


class Row(tuple[Any, ...]):
    """Values of named fields: `row.name`, `row["name"]`, `row[0]`.

    Equal to the tuple of its values. A field named like a method of `tuple`
    (`count`, `index`) hides the method. A field with a leading underscore, or whose name is
    not an identifier, has no attribute: read it as `row["_name"]`.
    """

    __slots__ = ()
    _fields: ClassVar[tuple[str, ...]] = ()

    def _asdict(self) -> dict[str, Any]:
        """Names to values, in field order."""
        return dict(zip(self._fields, self, strict=True))

    @overload
    def __getitem__(self, key: SupportsIndex | str) -> Any: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[Any, ...]: ...
    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            try:
                return tuple.__getitem__(self, self._fields.index(key))
            except ValueError:
                raise KeyError(key) from None
        return tuple.__getitem__(self, key)

    def __repr__(self) -> str:
        pairs = zip(self._fields, self, strict=True)
        return f"Row({', '.join(f'{name}={value!r}' for name, value in pairs)})"

    def __reduce__(self) -> tuple[object, ...]:
        return (make_row, (self._fields, tuple(self)))


def make_row(names: Sequence[str], values: Iterable[Any]) -> Row:
    """The row of these names and values, aligned."""
    return row_class(tuple(names))(values)


@lru_cache(maxsize=1024)
def row_class(names: tuple[str, ...]) -> type[Row]:
    """The class of rows with these fields; calling it with an iterable makes a row."""
    members: dict[str, Any] = {"__slots__": (), "_fields": names}
    # A namedtuple's attributes read any tuple by position, without a Python call.
    positions = namedtuple("positions", [f"f{position}" for position in range(len(names))])  # type: ignore[misc]
    for position, name in enumerate(names):
        if name.isidentifier() and not name.startswith("_"):
            members[name] = vars(positions)[f"f{position}"]
    return type("Row", (Row,), members)


def row_values(
    info: TypeInfo, path: str, error: type[QueryableStateError]
) -> Callable[[Any], Sequence[Any]]:
    """A function that returns the values of a ROW or TUPLE in the order of its fields.

    It reads tuples and lists by position, mappings by name (a missing field is null), and
    rows with the same names in another order (Spark's, named tuples) by name. Any other
    value raises `error`.
    """
    width = len(info.fields)
    names = tuple(f.name for f in info.fields) if info.kind == Kind.ROW else ()
    known = frozenset(names)

    def values_of(value: Any) -> Sequence[Any]:
        values: Sequence[Any] = value
        if isinstance(value, tuple):
            if value.__class__ is not tuple and names:
                own = getattr(value, "__fields__", None) or getattr(value, "_fields", None)
                if own is not None and tuple(own) != names and frozenset(own) == known:
                    plain = dict(zip(own, tuple(value), strict=True))
                    return [plain[name] for name in names]
        elif isinstance(value, Mapping) and names:
            unknown = [key for key in value if key not in known]
            if unknown:
                raise error(
                    f"{path} has no field {unknown[0]!r}; its fields are {', '.join(names)}"
                )
            return [value.get(name) for name in names]
        elif not isinstance(value, list):
            what = "null" if value is None else f"a {type(value).__name__}"
            raise error(f"{path} is {what}, but must be {info}")
        if len(values) != width:
            raise error(f"{path} is {info}: {width} fields, but the value has {len(values)}")
        return values

    return values_of
