"""Paths of the fields within a value type.

`.` joins field names; `[]` means the elements of a list and the values of a map, `[2]` the third
field of a tuple: `address.street`, `items[].price`. The path of the whole value is empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.wire.schema.type_model import Kind, TypeInfo, given

if TYPE_CHECKING:
    from collections.abc import Iterator


def child(path: str, name: str) -> str:
    """The path of a row's field."""
    return f"{path}.{name}" if path else name


def elements(info: TypeInfo, path: str) -> Iterator[tuple[TypeInfo, str]]:
    """Types and paths in a list, a map (its values) or a tuple; empty for other types."""
    if info.kind in (Kind.LIST, Kind.MAP):
        yield given(info.element), f"{path}[]"
    elif info.kind == Kind.TUPLE:
        for position, field in enumerate(info.fields):
            yield field.type, f"{path}[{position}]"


def rows(info: TypeInfo, path: str = "") -> Iterator[tuple[str, TypeInfo]]:
    """The rows in a type, itself included, by path."""
    if info.kind == Kind.ROW:
        yield path, info
        for field in info.fields:
            yield from rows(field.type, child(path, field.name))
    else:
        for inner, at in elements(info, path):
            yield from rows(inner, at)
