"""Conversion of Python values to values for Arrow."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from queryable_state.wire.arrow.arrow_types import field_names
from queryable_state.wire.errors import SerializationError
from queryable_state.wire.rows import row_values
from queryable_state.wire.schema.instant import Instant
from queryable_state.wire.schema.type_model import Kind, TypeInfo
from queryable_state.wire.schema.type_serializer import TypeSerializer
from queryable_state.wire.values.serialized import serialized

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.wire.values.pickled import Pickle


def to_arrow_value(info: TypeInfo, pickled: Pickle) -> Callable[[Any], Any] | None:
    """Converter from a Python value of a type to a value for Arrow; None: no conversion.

    `pickled` returns the bytes of a PICKLED value.
    """
    match info:
        case TypeInfo(kind=Kind.PICKLED):
            return pickled
        case TypeInfo(kind=Kind.CUSTOM, serializer=TypeSerializer() as serializer):
            return lambda value: serialized(value, serializer, "value")
        case TypeInfo(kind=Kind.INSTANT):
            return Instant.to_datetime
        case TypeInfo(kind=Kind.BIG_INT):
            return Decimal
        case TypeInfo(kind=Kind.ROW | Kind.TUPLE):
            names = field_names(info)
            converters = [to_arrow_value(field.type, pickled) for field in info.fields]
            values_of = row_values(info, "value", SerializationError)

            def struct_of(value: Any) -> dict[str, Any]:
                return {
                    name: item if of is None else _given(item, of)
                    for name, item, of in zip(names, values_of(value), converters, strict=True)
                }

            return struct_of
        case TypeInfo(kind=Kind.LIST, element=TypeInfo() as element):
            of = to_arrow_value(element, pickled)
            return None if of is None else lambda value: [_given(item, of) for item in value]
        case TypeInfo(kind=Kind.MAP, key=TypeInfo() as key, element=TypeInfo() as element):
            of_key = to_arrow_value(key, pickled) or _same
            of_value = to_arrow_value(element, pickled) or _same
            return lambda value: [(of_key(k), _given(v, of_value)) for k, v in value.items()]
    return None


def _given(value: Any, convert: Callable[[Any], Any]) -> Any:
    return None if value is None else convert(value)


def _same(value: Any) -> Any:
    return value
