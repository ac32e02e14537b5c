"""Key columns of many types: eight keys of each, as clients ask for them and as JSON has them."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any


@dataclass(frozen=True)
class KeyColumns:
    """One or several columns and the keys that they form."""

    schema: dict[str, str]
    """Type by column, in DDL."""
    values: list[tuple[Any, ...]]

    @property
    def ddl(self) -> str:
        """The columns in DDL."""
        return ", ".join(f"{name} {of}" for name, of in self.schema.items())

    def json(self, number: int) -> dict[str, Any]:
        """A key as columns of a JSON row."""
        columns = zip(self.schema, self.values[number], strict=True)
        return {name: _json(value) for name, value in columns}


def _json(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, float):
        return (
            value
            if abs(value) < float("inf")
            else {"inf": "Infinity", "-inf": "-Infinity"}.get(str(value), "NaN")
        )
    return str(value) if isinstance(value, Decimal) else value


def _one(of: str, *values: Any) -> KeyColumns:
    return KeyColumns({"kt": of}, [(value,) for value in values])


_NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

KEY_COLUMNS = {
    "long": _one("BIGINT", 0, 1, -1, 2**63 - 1, -(2**63), 255, 256, 1 << 40),
    "int": _one("INT", 0, 1, -1, 2**31 - 1, -(2**31), 127, 128, 65_536),
    "double": _one(
        "DOUBLE", 0.0, 5e-324, -1.5, float("inf"), float("-inf"), 1e300, float("nan"), 0.1
    ),
    "string": _one("STRING", "", "\0", "\0\0", "e\u0301", "é", "\U0001f511", "a", "x" * 300),
    "binary": _one(
        "BINARY", b"", b"\0", b"\0\0", b"\xff", b"\xff\xff", b"\0\xff", b"a", b"x" * 300
    ),
    "decimal": _one(
        "DECIMAL(38,10)",
        *map(Decimal, ("0E-10", "0.0000000001", "-0.0000000001", "1.0000000000")),
        *map(Decimal, ("-1.0000000000", "9" * 28 + ".9999999999", "10.0000000000", "2.5000000000")),
    ),
    "timestamp": _one(
        "TIMESTAMP",
        *(_NOON + timedelta(microseconds=micros) for micros in (0, 1, -1, 1_000, 999)),
        # PySpark cannot collect the first and last day that Python has.
        datetime(1, 1, 3, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
        datetime(9999, 12, 29, 23, 59, 59, 999_999, UTC),
    ),
    "date": _one(
        "DATE",
        *(date(2026, 1, day) for day in range(1, 5)),
        *(date(1, 1, 1), date(1582, 10, 15), date(1969, 12, 31), date(9999, 12, 31)),
    ),
    "two": KeyColumns(
        {"kt": "STRING", "ku": "BIGINT"},
        [("", 0), ("", 1), ("\0", 0), ("a", 256), ("a\0", 1), ("a", -1), ("aa", 0), ("a", 0)],
    ),
    "three": KeyColumns(
        {"kt": "BINARY", "ku": "DATE", "kv": "DOUBLE"},
        [
            (data, day, number)
            for data in (b"", b"\0")
            for day in (date(2026, 1, 1), date(1969, 12, 31))
            for number in (0.0, float("nan"))
        ],
    ),
}
