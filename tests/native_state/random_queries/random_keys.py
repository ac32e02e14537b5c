"""Random grouping keys: one to three columns of the types of `key_types` and of odd values."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.native_state.programs.queries.key_types import KEYS, NEWER_KEYS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from pyspark.sql import DataFrame

ODD_KEYS = {
    "zeros": "CASE n % 5 WHEN 0 THEN double('-0.0') WHEN 1 THEN 0D WHEN 2 THEN double('nan') WHEN 3 THEN -n / 3D ELSE double('-inf') END",
    "float_zeros": "CASE n % 4 WHEN 0 THEN float('-0.0') WHEN 1 THEN float(0) WHEN 2 THEN float('nan') ELSE CAST(n / 3 AS FLOAT) END",
    "struct_of_zeros": "named_struct('a', CASE n % 3 WHEN 0 THEN double('-0.0') WHEN 1 THEN 0D ELSE n / 3D END, 'b', CAST(n % 4 AS TINYINT))",
    "array_of_zeros": "array(CASE n % 3 WHEN 0 THEN float('-0.0') WHEN 1 THEN float(0) ELSE float('nan') END, float(n % 4))",
    "odd_string": r"element_at(array('', ' ', 'a\\u0000', 'a', 'é', 'e\\u0301', 'İ', 'ß', '\\uFFFF', '\\uD83D\\uDD11', '\\u202Eabc', '\\uFEFFa', repeat('x', 300), 'A', '\"', '\\\\'), CAST(n % 16 + 1 AS INT))",
    "odd_binary": "element_at(array(X'', X'00', X'0000', X'FF', X'FFFF', X'00FF', X'80', unhex(repeat('ab', 100))), CAST(n % 8 + 1 AS INT))",
    "tiny_decimal": "CAST((n - 20) / 1000 AS DECIMAL(3, 3))",
    "fraction": "CAST((n - 20) / 1000 AS DECIMAL(38, 38))",
    "whole_decimal": "CAST(n - 20 AS DECIMAL(38, 0))",
    "early_date": "date_add(DATE'0001-01-01', CAST(n * 15000 AS INT))",
    "early_timestamp": "timestamp_micros(-62135396800000000 + n * 7000000000000001)",
    "late_timestamp": "timestamp_micros(253402100799999999 - n)",
    "nothing": "CAST(NULL AS STRING)",
}
"""Values at the edges of their types, as SQL of a number `n`."""

ALL_KEYS = {**KEYS, **NEWER_KEYS, **ODD_KEYS}

PANDAS_KEYS = (
    *("boolean", "byte", "short", "int", "long", "float", "double", "zeros", "float_zeros"),
    *("small_decimal", "decimal", "large_decimal", "fraction", "tiny_decimal"),
    *("string", "odd_string", "binary", "odd_binary", "date", "timestamp"),
)
"""Those that functions in pandas can be grouped by."""


def random_keys(
    random: Random, *, columns: int = 0, of: tuple[str, ...] = tuple(ALL_KEYS), most: int = 40
) -> dict[str, str]:
    """SQL of each key column `k0`, `k1`, ... of the column `n`; `columns` 0: one to three.

    A column takes at most `most` values, of which one may be null.
    """
    count = columns or random.choice((1, 1, 2, 2, 3))
    keys = {}
    for number in range(count):
        expression = ALL_KEYS[random.choice(of)]
        values = random.choice((3, 9, most)) if count > 1 else most
        shuffled = f"pmod(n * {random.choice((1, 3, 7))} + {random.randrange(values)}, {values})"
        expression = re.sub(r"\bn\b", shuffled, expression)
        if random.random() < 0.5:
            expression = f"CASE WHEN n % 13 = 5 THEN NULL ELSE {expression} END"
        keys[f"k{number}"] = f"({expression})"
    return keys


def keyed(frame: DataFrame, keys: Mapping[str, str], *columns: str) -> DataFrame:
    """The frame's other columns, behind its key columns."""
    return frame.selectExpr(*(f"{sql} AS {name}" for name, sql in keys.items()), *columns)
