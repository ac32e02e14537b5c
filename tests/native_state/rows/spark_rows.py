"""Structs of Spark and rows of them, for tests of codecs."""

from __future__ import annotations

import json
import random
import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

from queryable_state.server.native_state.rows.spark_types import SparkKind, SparkType, parse_struct
from queryable_state.server.native_state.rows.type_infos import given, is_presented_as_map

if TYPE_CHECKING:
    from collections.abc import Sequence

_EXACT = Context(prec=80)
_BITS = {SparkKind.BYTE: 8, SparkKind.SHORT: 16, SparkKind.INTEGER: 32, SparkKind.LONG: 64}
_MICROS = timedelta(microseconds=1)

STRING_LIST = {"type": "array", "elementType": "string", "containsNull": True}


def array(element: object) -> dict[str, object]:
    """Spark's JSON of an array."""
    return {"type": "array", "elementType": element, "containsNull": True}


def map_of(key: object, value: object) -> dict[str, object]:
    """Spark's JSON of a map."""
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def fields(*types: object) -> dict[str, object]:
    """Spark's JSON of a struct with fields c0, c1, ..."""
    return {
        "type": "struct",
        "fields": [
            {"name": f"c{position}", "type": each, "nullable": True, "metadata": {}}
            for position, each in enumerate(types)
        ],
    }


def struct_of(*types: object) -> SparkType:
    """The struct of these types."""
    return parse_struct(json.dumps(fields(*types)))


PLAIN = (
    "boolean",
    "byte",
    "short",
    "integer",
    "long",
    "float",
    "double",
    "string",
    "binary",
    "date",
    "timestamp",
    "timestamp_ntz",
    "time(6)",
)
"""Scalar types without parameters, of which PySpark makes values."""

SCALARS = (
    *PLAIN,
    "decimal(9,2)",
    "decimal(18,6)",
    "decimal(19,4)",
    "decimal(38,10)",
    "interval day to second",
)
"""Types of which PySpark makes values."""

COMPOSITES = (
    array("short"),
    array("boolean"),
    array("decimal(25,3)"),
    array(array("string")),
    map_of("string", "integer"),
    map_of(fields("date", "string"), array("double")),
    fields("string", fields("long", "decimal(30,3)"), array("timestamp")),
)

OTHERS = (
    "interval",
    "interval year to month",
    "timestamp_ntz(9)",
    "timestamp_ltz(9)",
    "time(9)",
    "variant",
    "void",
    map_of(array("integer"), "string"),
    array("interval"),
    array("void"),
    array("timestamp_ntz(7)"),
)


AVRO = (
    "boolean",
    "integer",
    "long",
    "float",
    "double",
    "decimal(9,2)",
    "decimal(18,6)",
    "decimal(19,4)",
    "decimal(38,10)",
    "string",
    "binary",
    "date",
    "timestamp",
    "timestamp_ntz",
    "void",
    array("boolean"),
    array("decimal(25,3)"),
    array(array("string")),
    array(fields("integer", "string")),
    map_of("string", "integer"),
    map_of("string", map_of("string", "double")),
    map_of("string", fields("date")),
    fields("string", fields("long", "decimal(30,3)"), array("timestamp")),
)
"""Types that Spark stores as Avro."""


class Draw:
    """Draws values of Spark's types, as our codecs take and return them."""

    def __init__(self, seed: int, *, entries: int = 4, null_items: bool = True) -> None:
        """`entries` is the most that a map has. `null_items`: scalars in arrays and maps may be
        null."""
        self._random = random.Random(seed)
        self._entries = entries
        self._null_items = null_items

    def row(self, struct_type: SparkType, nulls: float = 0.15) -> tuple[Any, ...]:
        """A row of which some fields are null."""
        return tuple(self._maybe(each.type, nulls) for each in struct_type.fields)

    def rows(self, struct_type: SparkType, count: int) -> Sequence[tuple[Any, ...]]:
        """Rows, the first without nulls and the second of nulls."""
        drawn = [self.row(struct_type, 0.0), self.row(struct_type, 1.0)]
        return drawn + [self.row(struct_type) for _ in range(count - 2)]

    def _maybe(self, spark_type: SparkType, nulls: float) -> Any:
        if spark_type.kind == SparkKind.VOID or self._random.random() < nulls:
            return None
        return self.value(spark_type, nulls)

    def _item(self, spark_type: SparkType, nulls: float) -> Any:
        nested = spark_type.kind in (SparkKind.STRUCT, SparkKind.ARRAY, SparkKind.MAP)
        return self._maybe(spark_type, nulls if nested or self._null_items else 0.0)

    def value(self, spark_type: SparkType, nulls: float = 0.15) -> Any:
        """A value that is not null."""
        kind, draw = spark_type.kind, self._random
        if kind in _BITS:
            return draw.choice((-1, 1)) * draw.getrandbits(draw.randint(1, _BITS[kind] - 1))
        match kind:
            case SparkKind.BOOLEAN:
                return draw.random() < 0.5
            case SparkKind.FLOAT:
                return struct.unpack("<f", struct.pack("<f", draw.uniform(-1e6, 1e6)))[0]
            case SparkKind.DOUBLE:
                return draw.choice((draw.uniform(-1e300, 1e300), 0.0, 5e-324, float("inf")))
            case SparkKind.DECIMAL:
                digits = draw.randint(0, spark_type.precision)
                unscaled = draw.choice((-1, 1)) * draw.randrange(10**digits)
                return Decimal(unscaled).scaleb(-spark_type.scale, _EXACT)
            case SparkKind.STRING:
                return "".join(draw.choice("ab\x00é日😀") for _ in range(draw.randint(0, 12)))
            case SparkKind.BINARY:
                return draw.randbytes(draw.randint(0, 20))
            case SparkKind.DATE:
                return date(1, 1, 1) + timedelta(days=draw.randint(0, 3_652_058))
            case SparkKind.TIMESTAMP:
                return datetime(1970, 1, 1, tzinfo=UTC) + self._micros()
            case SparkKind.TIMESTAMP_NTZ:
                return datetime(1970, 1, 1) + self._micros()  # noqa: DTZ001
            case SparkKind.TIMESTAMP_NANOS | SparkKind.TIMESTAMP_NTZ_NANOS:
                zone = UTC if kind == SparkKind.TIMESTAMP_NANOS else None
                return datetime(1970, 1, 1, tzinfo=zone) + self._micros(), draw.randrange(10) * 100
            case SparkKind.TIME if spark_type.precision > 6:
                return draw.randrange(24 * 3600 * 10**9)
            case SparkKind.TIME:
                return (datetime(1970, 1, 1) + self._micros()).time()  # noqa: DTZ001
            case SparkKind.YEAR_MONTH_INTERVAL:
                return draw.randint(-2000, 2000)
            case SparkKind.DAY_TIME_INTERVAL:
                return self._micros() // _MICROS
            case SparkKind.CALENDAR_INTERVAL:
                return draw.randint(-9, 9), draw.randint(-40, 40), draw.randint(-(10**12), 10**12)
            case SparkKind.VARIANT:
                # The integer 7, and metadata without names.
                return b"\x0c\x07", b"\x01\x00\x00"
            case SparkKind.ARRAY:
                element = given(spark_type.element)
                length = draw.choice((0, 1, 3, 9, 70))
                return [self._item(element, nulls) for _ in range(length)]
            case SparkKind.MAP:
                return self._map(spark_type, nulls)
            case _:
                return self.row(spark_type, nulls)

    def _map(self, spark_type: SparkType, nulls: float) -> Any:
        key, value = given(spark_type.key), given(spark_type.element)
        drawn = [
            (self.value(key, 0.0), self._item(value, nulls))
            for _ in range(self._random.randint(0, self._entries))
        ]
        return dict(drawn) if is_presented_as_map(spark_type) else drawn

    def _micros(self) -> timedelta:
        return timedelta(microseconds=self._random.randint(-(10**15), 4 * 10**15))
