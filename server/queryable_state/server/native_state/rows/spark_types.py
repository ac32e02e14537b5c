"""Spark's types, as the schemas of state stores have them, parsed from Spark's JSON.

A user-defined type is the type that it is stored as. `char` and `varchar` are strings. A type that
this version does not know is refused by name.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from queryable_state.wire.errors import CorruptDataError, InvalidRequestError, Reason
from queryable_state.wire.schema.type_model import MAX_DEPTH

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

BINARY_COLLATION = "UTF8_BINARY"
LONG_DIGITS = 18
"""Digits of the decimals that Spark stores as a long."""

_COLLATIONS = "__COLLATIONS"
_PARAMETERS = re.compile(r"([a-z_]+)\(\s*(-?\d+)\s*(?:,\s*(-?\d+)\s*)?\)")
_COLLATED = re.compile(r"string\s+collate\s+(\w+)")
_MICROSECOND_DIGITS = 6


class UnsupportedTypeError(InvalidRequestError):
    """Use a newer version of this library, or another key: it does not read this type of Spark."""

    default_reason = Reason.UNSUPPORTED


class SparkKind(Enum):
    """Kind of a Spark type. The value is its name in Spark's JSON, without parameters."""

    BOOLEAN = "boolean"
    BYTE = "byte"
    SHORT = "short"
    INTEGER = "integer"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    DECIMAL = "decimal"
    STRING = "string"
    BINARY = "binary"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIMESTAMP_NTZ = "timestamp_ntz"
    TIMESTAMP_NANOS = "timestamp_ltz(9)"
    TIMESTAMP_NTZ_NANOS = "timestamp_ntz(9)"
    TIME = "time"
    YEAR_MONTH_INTERVAL = "interval year to month"
    DAY_TIME_INTERVAL = "interval day to second"
    CALENDAR_INTERVAL = "interval"
    VARIANT = "variant"
    VOID = "void"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"


@dataclass(frozen=True, slots=True)
class SparkField:
    """One field of a struct. Names may repeat within a struct."""

    name: str
    type: SparkType
    is_window: bool = False
    """The field is an event-time window that Spark has made."""


@dataclass(frozen=True, slots=True)
class SparkType:
    """A Spark type. All of its parts may be null: Spark stores schemas without that detail."""

    kind: SparkKind
    precision: int = 0
    """DECIMAL: digits. TIME and timestamps in nanoseconds: digits of a second's fraction."""
    scale: int = 0
    """DECIMAL: digits after the point."""
    collation: str = BINARY_COLLATION
    """STRING: how strings compare."""
    fields: tuple[SparkField, ...] = ()
    """STRUCT: the fields in order."""
    key: SparkType | None = None
    """MAP: the type of the keys."""
    element: SparkType | None = None
    """ARRAY: the type of the elements; MAP: the type of the values."""

    def select(self, positions: Iterable[int]) -> SparkType:
        """The struct of these fields, in this order."""
        return replace(self, fields=tuple(self.fields[position] for position in positions))

    def parts(self) -> Iterator[SparkType]:
        """The type and all types within it."""
        yield self
        within = (self.key, self.element, *(field.type for field in self.fields))
        for part in within:
            if part is not None:
                yield from part.parts()

    def __str__(self) -> str:
        """Spark's text of the type."""
        match self.kind:
            case SparkKind.DECIMAL:
                return f"decimal({self.precision},{self.scale})"
            case SparkKind.TIME:
                return f"time({self.precision})"
            case SparkKind.TIMESTAMP_NANOS | SparkKind.TIMESTAMP_NTZ_NANOS:
                return f"{self.kind.value.partition('(')[0]}({self.precision})"
            case SparkKind.STRING if self.collation != BINARY_COLLATION:
                return f"string collate {self.collation}"
            case SparkKind.ARRAY:
                return f"array<{self.element}>"
            case SparkKind.MAP:
                return f"map<{self.key},{self.element}>"
            case SparkKind.STRUCT:
                return f"struct<{','.join(f'{each.name}:{each.type}' for each in self.fields)}>"
            case _:
                return str(self.kind.value)


def parse_struct(text: str) -> SparkType:
    """Parses Spark's JSON of a struct.

    Raises CorruptDataError for other texts, UnsupportedTypeError for types it does not know.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or content.get("type") != "struct":
        raise CorruptDataError(f"{text[:80]!r} is not Spark's JSON of a struct")
    return _parse(content, {}, "", 1)


def struct_of(fields: Iterable[SparkField]) -> SparkType:
    """The struct with these fields."""
    return SparkType(SparkKind.STRUCT, fields=tuple(fields))


def _parse(content: object, collations: Mapping[str, str], path: str, depth: int) -> SparkType:
    """`collations` are those of a field's strings, by path within the field."""
    if depth > MAX_DEPTH:
        raise UnsupportedTypeError(f"a type of Spark nests more than {MAX_DEPTH} levels deep")
    if isinstance(content, str):
        return _scalar(content, collations.get(path, BINARY_COLLATION))
    try:
        return _composite(content, collations, path, depth)
    except (KeyError, TypeError, AttributeError):
        raise CorruptDataError(f"{str(content)[:80]!r} is not Spark's JSON of a type") from None


def _composite(content: Any, collations: Mapping[str, str], path: str, depth: int) -> SparkType:
    match content["type"]:
        case "struct":
            return struct_of(_field(each, depth + 1) for each in content["fields"])
        case "array":
            inner = _parse(content["elementType"], collations, f"{path}.element", depth + 1)
            return SparkType(SparkKind.ARRAY, element=inner)
        case "map":
            key = _parse(content["keyType"], collations, f"{path}.key", depth + 1)
            value = _parse(content["valueType"], collations, f"{path}.value", depth + 1)
            return SparkType(SparkKind.MAP, key=key, element=value)
        case "udt":
            return _parse(content["sqlType"], collations, path, depth)
        case other:
            raise UnsupportedTypeError(f"type {other!r} of Spark is not supported")


def _field(content: Any, depth: int) -> SparkField:
    name, metadata = content["name"], content.get("metadata") or {}
    # Such as {"tags.element": "icu.UNICODE_CI"}: the provider precedes the collation.
    collations = {
        path: collation.rpartition(".")[2]
        for path, collation in metadata.get(_COLLATIONS, {}).items()
    }
    return SparkField(
        name,
        _parse(content["type"], collations, name, depth),
        is_window=bool(metadata.get("spark.timeWindow") or metadata.get("spark.sessionWindow")),
    )


_PARAMETRISED = ("decimal", "time", "timestamp_ltz(9)", "timestamp_ntz(9)")
_COMPOSITES = ("array", "map", "struct")
_PLAIN = {
    **{k.value: k for k in SparkKind if k.value not in (*_PARAMETRISED, *_COMPOSITES)},
    "null": SparkKind.VOID,
    "interval year": SparkKind.YEAR_MONTH_INTERVAL,
    "interval month": SparkKind.YEAR_MONTH_INTERVAL,
}
_DAY_TIME = re.compile(r"interval (day|hour|minute|second)( to (hour|minute|second))?")


def _scalar(name: str, collation: str) -> SparkType:
    if name == "string":
        return SparkType(SparkKind.STRING, collation=collation)
    if collated := _COLLATED.fullmatch(name):
        return SparkType(SparkKind.STRING, collation=collated[1])
    if _DAY_TIME.fullmatch(name):
        return SparkType(SparkKind.DAY_TIME_INTERVAL)
    if name == "decimal":
        return SparkType(SparkKind.DECIMAL, precision=10)
    if parameters := _PARAMETERS.fullmatch(name):
        return _parametrised(name, parameters[1], int(parameters[2]), int(parameters[3] or 0))
    if name not in _PLAIN:
        raise UnsupportedTypeError(f"type {name!r} of Spark is not supported")
    return SparkType(_PLAIN[name])


def _parametrised(name: str, kind: str, first: int, second: int) -> SparkType:
    if kind == "decimal" and 0 <= second <= first <= 38 and first > 0:
        return SparkType(SparkKind.DECIMAL, precision=first, scale=second)
    if kind in ("char", "varchar"):
        return SparkType(SparkKind.STRING)
    if kind == "time" and 0 <= first <= 9:
        return SparkType(SparkKind.TIME, precision=first)
    if kind in ("timestamp_ltz", "timestamp_ntz") and 0 <= first <= 9:
        zoned = kind == "timestamp_ltz"
        if first <= _MICROSECOND_DIGITS:
            return SparkType(SparkKind.TIMESTAMP if zoned else SparkKind.TIMESTAMP_NTZ)
        nanos = SparkKind.TIMESTAMP_NANOS if zoned else SparkKind.TIMESTAMP_NTZ_NANOS
        return SparkType(nanos, precision=first)
    raise UnsupportedTypeError(f"type {name!r} of Spark is not supported")
