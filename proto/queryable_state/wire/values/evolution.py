"""Schema evolution: conversion of values of an older schema version to a newer one.

Fields are matched by name: an added field is null, a dropped one is left out. Scalars may
widen (`widening`). Any other change needs a state of another name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from queryable_state.wire.errors import JobError
from queryable_state.wire.rows import row_maker
from queryable_state.wire.schema.instant import Instant
from queryable_state.wire.schema.serializer_formats import readable_as
from queryable_state.wire.schema.type_model import Kind, TypeInfo, given
from queryable_state.wire.values.scalars import BIG_INT_DIGITS, decimal_of, unscaled_of

_INTEGERS = (Kind.BYTE, Kind.SHORT, Kind.INT, Kind.LONG)
_DIGITS = {Kind.BYTE: 3, Kind.SHORT: 5, Kind.INT: 10, Kind.LONG: 19, Kind.BIG_INT: BIG_INT_DIGITS}


def widens(old: TypeInfo, new: TypeInfo) -> bool:
    """True if every value of `old` is kept exactly by a conversion to `new`."""
    if old.kind in _INTEGERS and new.kind in _INTEGERS:
        return _INTEGERS.index(old.kind) < _INTEGERS.index(new.kind)
    match (old.kind, new.kind):
        case (Kind.FLOAT, Kind.DOUBLE) | (Kind.STRING, Kind.BINARY):
            return True
        case (Kind.TIMESTAMP, Kind.INSTANT) | (Kind.INSTANT, Kind.TIMESTAMP):
            return True
        case (Kind.BYTE | Kind.SHORT, Kind.FLOAT):
            return True
        case (Kind.BYTE | Kind.SHORT | Kind.INT, Kind.DOUBLE):
            return True
        case (Kind.DECIMAL, Kind.BIG_INT):
            return old.scale == 0
        case (Kind.DECIMAL, Kind.DECIMAL):
            digits = old.precision - old.scale
            return new.scale >= old.scale and new.precision - new.scale >= digits
        case (_, Kind.DECIMAL):
            return _DIGITS.get(old.kind, 99) <= new.precision - new.scale
        case (_, Kind.BIG_INT):
            return old.kind in _DIGITS
    return False


def widening(old: TypeInfo, new: TypeInfo) -> Callable[[Any], Any] | None:
    """The conversion of a value where `widens`; None if the value stays as it is."""
    match (old.kind, new.kind):
        case (Kind.BYTE | Kind.SHORT | Kind.INT, Kind.FLOAT | Kind.DOUBLE):
            return float
        case (Kind.STRING, Kind.BINARY):
            return str.encode
        case (Kind.TIMESTAMP, Kind.INSTANT):
            return Instant.of_datetime
        case (Kind.INSTANT, Kind.TIMESTAMP):
            return Instant.to_datetime
        case (Kind.DECIMAL, Kind.BIG_INT):
            return int
        case (_, Kind.DECIMAL) if old.kind != Kind.DECIMAL or old.scale != new.scale:
            return partial(_decimal, precision=new.precision, scale=new.scale)
    return None


def _decimal(value: object, precision: int, scale: int) -> Any:
    return decimal_of(unscaled_of(value, precision, scale), precision, scale)


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
