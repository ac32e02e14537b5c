"""The JVM and Python put every key into the same key group."""

from __future__ import annotations

import math
import random
import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark_sessions import any_session

from queryable_state.wire.keys.key_groups import KeyGroups
from queryable_state.wire.schema.types import Types, type_info

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROWS = 300
MAX_PARALLELISMS = (100, 128, 32767)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DRAW = random.Random(20130131)


def _integer(bits: int) -> int:
    return DRAW.choice((-1, 1)) * DRAW.getrandbits(DRAW.randint(1, bits - 1))


def _float32() -> float:
    number: float = struct.unpack("<f", struct.pack("<f", DRAW.uniform(-1e6, 1e6)))[0]
    return DRAW.choice((number, number, -0.0, 0.0, 1e-45, math.inf, -math.inf, math.nan))


def _double() -> float:
    number = DRAW.uniform(-1e300, 1e300)
    return DRAW.choice((number, number, -0.0, 0.0, 5e-324, math.inf, -math.inf, math.nan))


def _decimal(precision: int, scale: int) -> Decimal:
    unscaled = DRAW.randint(0, 10 ** DRAW.randint(1, precision) - 1) * DRAW.choice((-1, 1))
    return Decimal(unscaled).scaleb(-scale, context=Context(prec=80))


def _text() -> str:
    return "".join(DRAW.choice("ab\x00é日😀") for _ in range(DRAW.randint(0, 40)))


def _instant() -> datetime:
    return EPOCH + timedelta(microseconds=DRAW.randint(-(10**15), 4 * 10**15))


COLUMNS: dict[str, Callable[[], Any]] = {
    "boolean": lambda: DRAW.random() < 0.5,
    "tinyint": lambda: _integer(8),
    "smallint": lambda: _integer(16),
    "int": lambda: _integer(32),
    "bigint": lambda: _integer(64),
    "float": _float32,
    "double": _double,
    "decimal(9,0)": lambda: _decimal(9, 0),
    "decimal(18,6)": lambda: _decimal(18, 6),
    "decimal(19,4)": lambda: _decimal(19, 4),
    "decimal(38,10)": lambda: _decimal(38, 10),
    "string": _text,
    "binary": lambda: DRAW.randbytes(DRAW.randint(0, 70)),
    "date": lambda: date(1, 1, 1) + timedelta(days=DRAW.randint(0, 3_652_058)),
    "timestamp": _instant,
    "timestamp_ntz": lambda: _instant().replace(tzinfo=None),
    "time(6)": lambda: (EPOCH + timedelta(microseconds=DRAW.randrange(24 * 3600 * 10**6))).time(),
    "decimal(38,0)": lambda: _decimal(38, 0),
    "struct<a:string,b:struct<c:double,d:decimal(30,3)>>": lambda: (
        _text(),
        (_double(), _decimal(30, 3)),
    ),
}


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with any_session() as session:
        yield session


def test_key_groups_equal_sparks(spark: SparkSession) -> None:
    """Every type alone, and three of them as one composite key."""
    from pyspark.sql import functions as sql

    rows = [tuple(draw() for draw in COLUMNS.values()) for _ in range(ROWS)]
    names = [f"c{i}" for i in range(len(COLUMNS))]
    schema = ", ".join(f"{name} {spec}" for name, spec in zip(names, COLUMNS, strict=True))
    key_columns = [[name] for name in names] + [["c11", "c3", "c10"]]
    groups = spark.createDataFrame(rows, schema).select(
        *(
            sql.pmod(sql.xxhash64(*columns), sql.lit(m)).cast("int")
            for columns in key_columns
            for m in MAX_PARALLELISMS
        )
    )
    by_jvm = [tuple(row) for row in groups.collect()]

    types = [type_info(spec) for spec in COLUMNS]
    composite = Types.TUPLE([types[11], types[3], types[10]])
    ours = [KeyGroups(info, m).of for info in (*types, composite) for m in MAX_PARALLELISMS]
    columns_of = len(MAX_PARALLELISMS)
    for row, expected in zip(rows, by_jvm, strict=True):
        keys = (*row, (row[11], row[3], row[10]))
        for position, of in enumerate(ours):
            key = keys[position // columns_of]
            assert of(key) == expected[position], (groups.columns[position], key)
