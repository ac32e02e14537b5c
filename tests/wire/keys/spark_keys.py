"""Keys with the hashes that Spark gives them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

from queryable_state.wire.schema.type_model import Field, TypeInfo
from queryable_state.wire.schema.types import type_info

FIXTURE = Path(__file__).parent.parent / "fixtures" / "spark_hashes.json"

HASHED: dict[str, tuple[str, Any]] = {
    "boolean": ("boolean", True),
    "byte": ("tinyint", -128),
    "short": ("smallint", -2),
    "int": ("int", 7),
    "long": ("bigint", -(1 << 63)),
    "float": ("float", -1.5),
    "float, negative zero": ("float", -0.0),
    "float, not a number": ("float", float("nan")),
    "double": ("double", 1.5),
    "double, negative zero": ("double", -0.0),
    "double, not a number": ("double", float("nan")),
    "decimal of 18 digits": ("decimal(18,2)", Decimal("-1234.50")),
    "decimal of 38 digits": ("decimal(38,10)", Decimal("12345678901234567890.5")),
    "decimal of 38 digits, negative": ("decimal(38,10)", Decimal("-0.0000000128")),
    "string": ("string", "sensor_1"),
    "string, empty": ("string", ""),
    "string, of no whole word": ("string", "é"),
    "string, not ASCII, with a zero": ("string", "é\x00日x"),
    "binary": ("binary", b"\x00\x01\xff\x80\x7f\xfe"),
    "date": ("date", date(2013, 1, 31)),
    "timestamp": ("timestamp", datetime(2013, 1, 31, 10, 0, 0, 5, tzinfo=UTC)),
    "timestamp_ntz": ("timestamp_ntz", datetime(1969, 12, 31, 23, 59, 59)),  # noqa: DTZ001
    "time": ("time", time(23, 59, 59, 5)),
    "null": ("string", None),
    "list": ("array<string>", ("a", None, "")),
    "list, empty": ("array<int>", ()),
    "list of lists of rows": (
        "array<array<struct<a:smallint,b:string>>>",
        (((1, "x"), None), None, ((-1, None),)),
    ),
    "row": ("a string, b int", ("AA", 3)),
    "row with a null": ("a string, b int", (None, 3)),
    "row of nulls": ("a string, b int", (None, None)),
    "window": (
        "w struct<start:timestamp,end:timestamp>, k bigint",
        (
            (datetime(2013, 1, 31, tzinfo=UTC), datetime(2013, 1, 31, 1, tzinfo=UTC)),
            -5,
        ),
    ),
}
"""By name: the type as DDL, and a key."""


def hash_fixture() -> dict[str, int]:
    """The JVM's hashes by name, as signed 32-bit numbers."""
    hashes: dict[str, int] = json.loads(FIXTURE.read_text(encoding="utf-8"))
    return hashes


def nullable(spec: str) -> TypeInfo:
    """The type of a DDL text, itself and all its fields nullable."""
    return _nullable(type_info(spec))


def _nullable(info: TypeInfo) -> TypeInfo:
    fields = tuple(Field(each.name, _nullable(each.type)) for each in info.fields)
    element = None if info.element is None else _nullable(info.element)
    return replace(info, fields=fields, element=element, nullable=True)
