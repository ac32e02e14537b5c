"""Normal form of values: the form that decoding their stored bytes gives.

A tuple for a ROW reads back as a `Row`, 0.1 in a FLOAT as 0.10000000149011612,
`True` in a LONG as 1. `normaliser` makes the function that converts a value at its write,
so that every read gives the normal form.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, time, tzinfo
from decimal import Decimal
from functools import partial
from typing import Any

from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.rows import row_class, row_maker
from queryable_state.wire.schema.type_model import Kind, TypeInfo

Normalise = Callable[[Any], Any]

_INTEGER_BITS = {Kind.BYTE: 8, Kind.SHORT: 16, Kind.INT: 32, Kind.LONG: 64}
_FLOAT = struct.Struct("<f")


def is_mutable(info: TypeInfo) -> bool:
    """True if a value of the type is or contains an object that may be mutable."""
    if info.kind in (Kind.LIST, Kind.MAP, Kind.PICKLED, Kind.CUSTOM):
        return True
    if info.python_class is not None and not issubclass(info.python_class, tuple):
        return True
    return any(is_mutable(field.type) for field in info.fields)


def normaliser(info: TypeInfo, read_back: Normalise) -> Normalise:
    """A function that converts a value of an immutable type to its normal form.

    It returns a value that is in normal form already as it is, and makes a `Row` of a plain
    tuple of such values. `read_back` encodes and decodes any other value, and raises for a
    value of another type.
    """
    names = _Names({"read_back": read_back})
    if info.kind not in (Kind.ROW, Kind.TUPLE):
        test = _test(info, "value", names)
        return names.compiled(f"""
def compiled(value):
    return value if {test} else read_back(value)
""")
    fields = [f"field_{position}" for position in range(len(info.fields))]
    tests = [
        _field_test(of.type, name, names) for of, name in zip(info.fields, fields, strict=True)
    ]
    row, make = names.of(_class_of(info)), names.of(row_maker(info))
    return names.compiled(f"""
def compiled(value):
    made_of = value.__class__
    if (made_of is tuple or made_of is {row}) and len(value) == {len(fields)}:
        [{", ".join(fields)}] = value
        if {" and ".join(tests) or "True"}:
            return value if made_of is {row} else {make}(value)
    return read_back(value)
""")


class _Names:
    """The global names in the source of a normaliser.

    A normaliser runs for each write of a state. Its source has the tests of all fields in one
    function, because a call for each field would take most of its time.
    """

    def __init__(self, known: dict[str, Any]) -> None:
        self._known = known

    def of(self, thing: object) -> str:
        """Adds an object and returns its name."""
        name = f"given_{len(self._known)}"
        self._known[name] = thing
        return name

    def compiled(self, source: str) -> Normalise:
        """Compiles the function `compiled` of a source."""
        # The source has no text of a user: fields have positions, all else has generated names.
        exec(source, self._known)
        compiled: Normalise = self._known["compiled"]
        return compiled


def _class_of(info: TypeInfo) -> type:
    if info.kind == Kind.TUPLE:
        return tuple
    return info.python_class or row_class(tuple(f.name for f in info.fields))


def _field_test(info: TypeInfo, name: str, names: _Names) -> str:
    return f"({name} is None or {_test(info, name, names)})"


def _test(info: TypeInfo, name: str, names: _Names) -> str:
    """An expression that is true only for normal forms; false where a full test is too costly."""
    match info.kind:
        case Kind.BOOLEAN | Kind.DOUBLE | Kind.BINARY | Kind.DATE:
            return f"{name}.__class__ is {names.of(_CLASSES[info.kind])}"
        case Kind.BYTE | Kind.SHORT | Kind.INT | Kind.LONG:
            bound = 1 << (_INTEGER_BITS[info.kind] - 1)
            return f"({name}.__class__ is int and {-bound} <= {name} < {bound})"
        case Kind.STRING:
            # Other text may hold half a surrogate pair, which has no UTF-8.
            return f"({name}.__class__ is str and {name}.isascii())"
        case Kind.FLOAT:
            return f"{names.of(_is_float)}({name})"
        case Kind.DECIMAL:
            return f"{names.of(_decimal_test(info))}({name})"
        case Kind.TIMESTAMP:
            return f"{names.of(partial(_is_time, UTC))}({name})"
        case Kind.TIMESTAMP_NTZ:
            return f"{names.of(partial(_is_time, None))}({name})"
        case Kind.TIME:
            return f"{names.of(_is_time_of_day)}({name})"
        case Kind.INSTANT:
            # Nearly every instant is in range; reading back converts and checks it.
            return "False"
        case Kind.BIG_INT:
            bound = 10**38
            return f"({name}.__class__ is int and {-bound} < {name} < {bound})"
        case Kind.ROW | Kind.TUPLE:
            tests = [
                _field_test(field.type, f"{name}[{position}]", names)
                for position, field in enumerate(info.fields)
            ]
            made_of = f"{name}.__class__ is {names.of(_class_of(info))}"
            return f"({' and '.join([made_of, f'len({name}) == {len(tests)}', *tests])})"
    raise InvalidRequestError(f"values of {info} are mutable: they have no normal form")


_CLASSES = {Kind.BOOLEAN: bool, Kind.DOUBLE: float, Kind.BINARY: bytes, Kind.DATE: date}


def _is_float(value: Any) -> bool:
    if value.__class__ is not float:
        return False
    try:
        (rounded,) = _FLOAT.unpack(_FLOAT.pack(value))
    except OverflowError:
        return False
    return bool(rounded == value)


def _is_time(zone: tzinfo | None, value: Any) -> bool:
    return value.__class__ is datetime and value.tzinfo is zone and not value.fold


def _is_time_of_day(value: Any) -> bool:
    return value.__class__ is time and value.tzinfo is None and not value.fold


def _decimal_test(info: TypeInfo) -> Callable[[Any], bool]:
    precision, exponent = info.precision, -info.scale

    def is_normal(value: Any) -> bool:
        if value.__class__ is not Decimal:
            return False
        parts = value.as_tuple()
        if parts.exponent != exponent or len(parts.digits) > precision:
            return False
        return not (parts.sign and value.is_zero())

    return is_normal
