"""Keys and values of every type: one aggregation for each key type, all in one query."""

from collections.abc import Callable
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.native_state.programs.written_query import WrittenQuery

NUMBERS = "n BIGINT"
Read = Callable[[str], DataFrame]

KEYS = {
    "boolean": "n % 2 = 0",
    "byte": "CAST(n - 20 AS TINYINT)",
    "short": "CAST(n * 300 - 5000 AS SMALLINT)",
    "int": "CAST(n * 7654321 - 90000000 AS INT)",
    "long": "n * 987654321987 - 5000000000000",
    "float": "CASE WHEN n = 1 THEN float('nan') WHEN n = 2 THEN float('-0.0') WHEN n = 3 THEN float('-inf') ELSE CAST(n / 7 AS FLOAT) END",
    "double": "CASE WHEN n = 1 THEN double('nan') WHEN n = 2 THEN double('-0.0') WHEN n = 3 THEN double('inf') ELSE n / 7D END",
    "small_decimal": "CAST(n * 1.37 - 20 AS DECIMAL(9, 2))",
    "decimal": "CAST(n * 123456789.1234 - 1000000000 AS DECIMAL(18, 4))",
    "large_decimal": "CAST(n - 20 AS DECIMAL(38, 10)) * CAST(12345678901234567.25 AS DECIMAL(20, 2))",
    "string": "element_at(array('', 'a', 'eight ch', 'nine char', 'schlüssel', 'ключ', '鍵', '🔑🔑', concat('a key of many bytes ', n)), CAST(n % 9 + 1 AS INT))",
    "binary": "CASE WHEN n = 4 THEN X'' ELSE unhex(substr(sha2(CAST(n AS STRING), 256), 1, CAST(n % 24 * 2 + 2 AS INT))) END",
    "date": "date_add(DATE'1969-12-01', CAST(n * 400 - 6000 AS INT))",
    "timestamp": "timestamp_micros(n * 98765432109876 - 900000000000001)",
    "timestamp_ntz": "CAST(timestamp_micros(n * 98765432109876 - 900000000000001) AS TIMESTAMP_NTZ)",
    "day_time": "make_dt_interval(CAST(n AS INT) - 20, 3, 4, 5.678901)",
    "year_month": "make_ym_interval(CAST(n AS INT) - 20, 5)",
    "struct": "named_struct('a', CAST(n AS INT), 'b', CASE WHEN n % 3 = 0 THEN NULL ELSE concat('b', n) END, 'c', named_struct('d', n / 3D, 'e', DATE'2026-01-01'))",
    "array": "CASE WHEN n = 6 THEN array() ELSE array(concat('x', n), NULL, 'yy') END",
    "array_of_int": "array(CAST(n AS INT), CAST(-n AS INT), 3)",
    "array_of_struct": "array(named_struct('a', CAST(n AS SMALLINT), 'b', CAST(n AS STRING)))",
}
NEWER_KEYS = {
    "time": "CASE WHEN n = 5 THEN NULL ELSE make_time(CAST(n % 24 AS INT), 17, 5.123456) END",
}
COMBINED = {
    "combined": ("string", "int", "timestamp"),
    "combined_decimals": ("large_decimal", "boolean", "decimal", "byte"),
    "all": tuple(KEYS),
}
VALUES = {
    **KEYS,
    "map": "map(concat('k', n), n, 'other', NULL)",
    "map_of_struct": "map(named_struct('a', CAST(n AS INT)), array(n, n + 1))",
    "array_of_decimal": "array(CAST(n AS DECIMAL(38, 3)), NULL)",
    "array_of_boolean": "array(true, false, NULL, n % 2 = 0)",
    "nothing": "CAST(NULL AS STRING)",
}


def _nullable(name: str, expression: str) -> str:
    return f"CASE WHEN n = 5 THEN NULL ELSE {expression} END AS {name}"


def _by(numbers: DataFrame, keys: tuple[str, ...], expressions: dict[str, str]) -> DataFrame:
    projected = numbers.selectExpr("n", *[_nullable(key, expressions[key]) for key in keys])
    return projected.groupBy(*keys).agg(F.sum("n").alias("total")).select("total")


def by_each_type(read: Read) -> DataFrame:
    """An aggregation for each key type and for combined keys, in the order of the names."""
    numbers = read("numbers")
    each = [_by(numbers, (key,), KEYS) for key in KEYS]
    each += [_by(numbers, keys, KEYS) for keys in COMBINED.values()]
    return reduce(DataFrame.union, each)


def by_newer_types(read: Read) -> DataFrame:
    """An aggregation by each type that only newer versions have."""
    numbers = read("numbers")
    return reduce(DataFrame.union, [_by(numbers, (key,), NEWER_KEYS) for key in NEWER_KEYS])


def values_of_each_type(read: Read) -> DataFrame:
    """The first and last value of each type, by number."""
    values = read("numbers").selectExpr("n", *[_nullable(f"v_{k}", e) for k, e in VALUES.items()])
    return values.groupBy("n").agg(
        *[F.first(f"v_{name}").alias(f"first_{name}") for name in VALUES],
        F.max("v_string").alias("largest"),
    )


def feed_numbers(query: WrittenQuery) -> None:
    """Forty numbers in two batches."""
    query.feed([{"n": n} for n in range(30)])
    query.feed([{"n": n} for n in range(20, 40)])
    query.stop()
