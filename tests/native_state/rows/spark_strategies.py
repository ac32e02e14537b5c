"""Hypothesis strategies of Spark's types and their values, for comparisons with the JVM."""

from __future__ import annotations

from datetime import UTC
from decimal import Context, Decimal
from typing import Any

from hypothesis import strategies as st
from tests.native_state.rows.spark_rows import PLAIN, array, fields, map_of

from queryable_state.server.native_state.rows.spark_types import SparkKind, SparkType
from queryable_state.server.native_state.rows.type_infos import given, is_presented_as_map

_EXACT = Context(prec=80)
_BITS = {SparkKind.BYTE: 8, SparkKind.SHORT: 16, SparkKind.INTEGER: 32, SparkKind.LONG: 64}
_WORD_OF_NULL_BITS = 64
_MICROSECOND_DIGITS = 6
_DAY_NS = 24 * 3600 * 10**9
_HUNDREDS = st.integers(0, 9).map(lambda digit: digit * 100)
"""Nanoseconds behind microseconds, of a precision of 7."""
_VARIANT_OF_7 = (b"\x0c\x07", b"\x01\x00\x00")
"""Value and metadata."""

OTHERS = (
    "interval",
    "interval year to month",
    "interval day to second",
    "timestamp_ntz(9)",
    "timestamp_ltz(9)",
    "time(9)",
    "variant",
    "void",
)
"""Scalar types of which PySpark makes no values, or other ones than our codecs."""


def decimals() -> st.SearchStrategy[str]:
    """Decimal types that Spark stores as a long, up to a precision of 18, and as bytes."""
    return st.sampled_from((1, 9, 17, 18, 19, 25, 38)).flatmap(_decimals_of)


def _decimals_of(precision: int) -> st.SearchStrategy[str]:
    return st.integers(0, precision).map(lambda scale: f"decimal({precision},{scale})")


def types(scalars: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Types as Spark's JSON has them: scalars, and arrays, maps and structs of them."""
    key_scalars = st.sampled_from(PLAIN) | decimals()
    keys = key_scalars | st.lists(key_scalars, min_size=1, max_size=2).map(_struct)
    return st.recursive(
        scalars,
        lambda inner: (
            inner.map(array)
            | st.lists(inner, min_size=1, max_size=3).map(_struct)
            | st.builds(map_of, keys, inner)
        ),
        max_leaves=4,
    )


def structs(*, others: bool = False) -> st.SearchStrategy[list[Any]]:
    """The types of a struct's fields; with `others` those of `OTHERS` are among them."""
    scalars = st.sampled_from((*PLAIN, *OTHERS) if others else PLAIN) | decimals()
    return st.lists(types(scalars), min_size=1, max_size=5)


def _struct(types_of_fields: list[Any]) -> dict[str, Any]:
    return fields(*types_of_fields)


def rows(struct: SparkType, *, entries: int) -> st.SearchStrategy[tuple[Any, ...]]:
    """Rows of a struct, of which any field may be null; `entries` is the most that a map has."""
    return st.tuples(*(_nullable(each.type, entries) for each in struct.fields))


def _nullable(spark_type: SparkType, entries: int) -> st.SearchStrategy[Any]:
    nulls = st.none()
    return nulls if spark_type.kind == SparkKind.VOID else nulls | values(spark_type, entries)


def values(spark_type: SparkType, entries: int) -> st.SearchStrategy[Any]:
    """Values that are not null, as our codecs take and return them."""
    kind = spark_type.kind
    if kind in _BITS:
        return _signed(_BITS[kind])
    match kind:
        case SparkKind.BOOLEAN:
            return st.booleans()
        case SparkKind.FLOAT:
            return st.floats(width=32)
        case SparkKind.DOUBLE:
            return st.floats()
        case SparkKind.DECIMAL:
            most = 10**spark_type.precision - 1
            return st.integers(-most, most).map(
                lambda unscaled: Decimal(unscaled).scaleb(-spark_type.scale, _EXACT)
            )
        case SparkKind.STRING:
            return st.text(max_size=12)
        case SparkKind.BINARY:
            return st.binary(max_size=12)
        case SparkKind.DATE:
            return st.dates()
        case SparkKind.TIMESTAMP:
            return st.datetimes(timezones=st.just(UTC))
        case SparkKind.TIMESTAMP_NTZ:
            return st.datetimes()
        case SparkKind.TIME if spark_type.precision > _MICROSECOND_DIGITS:
            return st.integers(0, _DAY_NS - 1)
        case SparkKind.TIME:
            return st.times()
        case SparkKind.TIMESTAMP_NANOS:
            return st.tuples(st.datetimes(timezones=st.just(UTC)), _HUNDREDS)
        case SparkKind.TIMESTAMP_NTZ_NANOS:
            return st.tuples(st.datetimes(), _HUNDREDS)
        case SparkKind.YEAR_MONTH_INTERVAL:
            return _signed(32)
        case SparkKind.DAY_TIME_INTERVAL:
            return _signed(64)
        case SparkKind.CALENDAR_INTERVAL:
            return st.tuples(_signed(32), _signed(32), _signed(64))
        case SparkKind.VARIANT:
            return st.just(_VARIANT_OF_7)
        case SparkKind.ARRAY:
            element = _nullable(given(spark_type.element), entries)
            longer = element.map(lambda item: [item] * (_WORD_OF_NULL_BITS + 1))
            return st.lists(element, max_size=3) | longer
        case SparkKind.MAP:
            return _maps(spark_type, entries)
        case _:
            return rows(spark_type, entries=entries)


def _signed(bits: int) -> st.SearchStrategy[int]:
    half = 1 << bits - 1
    return st.integers(-half, half - 1)


def _maps(spark_type: SparkType, entries: int) -> st.SearchStrategy[Any]:
    key, value = given(spark_type.key), given(spark_type.element)
    pairs = st.lists(
        st.tuples(values(key, entries), _nullable(value, entries)),
        max_size=entries,
        unique_by=lambda pair: repr(pair[0]),
    )
    return pairs.map(dict) if is_presented_as_map(spark_type) else pairs
