"""Schema evolution: conversion of values of an older schema version to a newer one.

Fields are matched by name: an added field is null, a dropped one is left out. Scalars may
widen (`widening`). Any other change needs a state of another name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from queryable_state.wire.errors import JobError
from queryable_state.wire.rows import row_maker
from queryable_state.wire.schema.serializer_formats import readable_as
from queryable_state.wire.schema.type_model import Kind, TypeInfo, given
from queryable_state.wire.values.widening import widening, widens

Adapt = Callable[[Any], Any]


def adapter(old: TypeInfo, new: TypeInfo, path: str = "value") -> Adapt | None:
    """A function that converts a value of `old` to `new`; None if no conversion is needed.

    Raises JobError (INCOMPATIBLE_STATE) for incompatible types.
    """
    if old == new:
        return None
    match (old.kind, new.kind):
        case (Kind.ROW, Kind.ROW):
            return _row_adapter(old, new, path)
        case (Kind.TUPLE, Kind.TUPLE) if len(old.fields) == len(new.fields):
            return _tuple_adapter(old, new, path)
        case (Kind.LIST, Kind.LIST):
            return _list_adapter(given(old.element), given(new.element), path)
        case (Kind.MAP, Kind.MAP) if adapter(given(old.key), given(new.key), path) is None:
            return _map_adapter(given(old.element), given(new.element), path)
        case (Kind.CUSTOM, Kind.CUSTOM):
            # The serializer of the old type reads its bytes: `readable_as`.
            return None
        case _ if widens(old, new):
            return widening(old, new)
    raise JobError(
        f"{path} was {old} and is {new}: fields may be added, dropped and renamed, and numbers "
        "widened; for any other change give the state another name"
    )


def in_classes_of(old: TypeInfo, new: TypeInfo) -> TypeInfo:
    """The old type, with the Python classes and the serializers that read its values as `new`.

    Raises JobError (INCOMPATIBLE_STATE) if a serializer is incompatible with the stored format.
    """
    if old == new:
        return new
    if old.kind != new.kind:
        return old
    if old.kind == Kind.CUSTOM:
        return readable_as(old, new, "value")
    if old.kind == Kind.ROW:
        after = {field.name: field.type for field in new.fields}
        types = [
            in_classes_of(field.type, after.get(field.name, field.type)) for field in old.fields
        ]
    else:
        pairs = zip(old.fields, new.fields, strict=False)
        types = [in_classes_of(before.type, field.type) for before, field in pairs]
    fields = tuple(
        replace(field, type=info) for field, info in zip(old.fields, types, strict=False)
    )
    element = None
    if old.element is not None:
        element = in_classes_of(old.element, given(new.element))
    return replace(old, fields=fields or old.fields, element=element)


def _row_adapter(old: TypeInfo, new: TypeInfo, path: str) -> Adapt:
    before = {f.name: (i, f.type) for i, f in enumerate(old.fields)}
    make = row_maker(new)
    steps: list[tuple[int, Adapt | None]] = []
    for field in new.fields:
        position, old_type = before.get(field.name, (-1, field.type))
        steps.append((position, adapter(old_type, field.type, f"{path}.{field.name}")))

    def adapt(row: Any) -> Any:
        values = []
        for position, step in steps:
            value = row[position] if position >= 0 else None
            values.append(value if step is None or value is None else step(value))
        return make(values)

    return adapt


def _tuple_adapter(old: TypeInfo, new: TypeInfo, path: str) -> Adapt | None:
    steps = [
        adapter(before.type, after.type, f"{path}[{i}]")
        for i, (before, after) in enumerate(zip(old.fields, new.fields, strict=True))
    ]
    if not any(steps):
        return None

    def adapt(values: Any) -> Any:
        return tuple(
            value if step is None or value is None else step(value)
            for step, value in zip(steps, values, strict=True)
        )

    return adapt


def _list_adapter(old: TypeInfo, new: TypeInfo, path: str) -> Adapt | None:
    step = adapter(old, new, f"{path}[]")
    if step is None:
        return None
    return lambda values: [None if value is None else step(value) for value in values]


def _map_adapter(old: TypeInfo, new: TypeInfo, path: str) -> Adapt | None:
    step = adapter(old, new, f"{path}[]")
    if step is None:
        return None
    return lambda entries: {
        key: None if value is None else step(value) for key, value in entries.items()
    }
