"""Widening of scalar types: changes of a type that keep every stored value exactly.

* an integer to a wider one, to BIG_INT, to a DECIMAL with enough digits before the point, to
  DOUBLE (up to INT) or to FLOAT (up to SHORT);
* FLOAT to DOUBLE;
* DECIMAL to one with at least as many digits before and after the point, and between
  `decimal(38,0)` and BIG_INT;
* STRING to BINARY, as UTF-8;
* TIMESTAMP to INSTANT and back.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from queryable_state.wire.schema.instant import Instant
from queryable_state.wire.schema.type_model import Kind, TypeInfo
from queryable_state.wire.values.scalars import BIG_INT_DIGITS, decimal_of, unscaled_of

if TYPE_CHECKING:
    from collections.abc import Callable

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
