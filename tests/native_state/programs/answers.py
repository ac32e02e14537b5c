"""The answers of Spark's own state reader for a checkpoint, as JSON lines that lose nothing.

Values are written as Spark stores them: timestamps in microseconds, dates in days, intervals in
microseconds or months, binary values in hexadecimal digits, decimals as text, floats by `repr`.
A map is a sorted list of `[key, value]` pairs. A struct is the list of its values: names of the
fields of a state need not differ.
"""

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.column import Column
from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    YearMonthIntervalType,
)

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - the session's time zone is UTC
_MICROSECOND = timedelta(microseconds=1)


def plain(value: Any) -> Any:
    """A collected value as JSON has it."""
    if isinstance(value, Row):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return sorted(([plain(key), plain(item)] for key, item in value.items()), key=repr)
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, datetime):
        if value.tzinfo is not None:
            value = value.astimezone(UTC).replace(tzinfo=None)
        return (value - _EPOCH) // _MICROSECOND
    if isinstance(value, date):
        return (value - _EPOCH.date()).days
    if isinstance(value, time):
        return (datetime.combine(_EPOCH, value, _EPOCH.tzinfo) - _EPOCH) // _MICROSECOND
    if isinstance(value, timedelta):
        return value // _MICROSECOND
    if isinstance(value, bytes | bytearray):
        return value.hex()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, float):
        return repr(value)
    return value


def collectable(column: Column, data_type: DataType) -> Column:
    """The column with year-month intervals as numbers of months, which Python cannot collect."""
    if isinstance(data_type, YearMonthIntervalType):
        return column.cast("int")
    if "interval" not in data_type.simpleString():
        return column
    if isinstance(data_type, StructType):
        fields = [collectable(column[f.name], f.dataType).alias(f.name) for f in data_type.fields]
        return F.when(column.isNotNull(), F.struct(*fields))
    if isinstance(data_type, ArrayType):
        element = data_type.elementType
        return F.transform(column, lambda item: collectable(item, element))
    if isinstance(data_type, MapType):
        kept = data_type
        return F.map_from_entries(
            F.transform(
                F.map_entries(column),
                lambda entry: F.struct(
                    collectable(entry["key"], kept.keyType),
                    collectable(entry["value"], kept.valueType),
                ),
            )
        )
    return column


def numbered(data_type: DataType) -> DataType:
    """The type with numbers for the names of a struct's fields, which need not differ."""
    if not isinstance(data_type, StructType):
        return data_type
    fields = [StructField(str(n), field.dataType) for n, field in enumerate(data_type.fields)]
    return StructType(fields)


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    """The rows as plain values by column."""
    columns = [
        collectable(F.col(f.name).cast(numbered(f.dataType)), numbered(f.dataType)).alias(f.name)
        for f in frame.schema.fields
    ]
    names = frame.columns
    return [dict(zip(names, plain(row), strict=True)) for row in frame.select(*columns).collect()]


def lines(frame: DataFrame) -> Iterator[str]:
    """One JSON object a row, in a stable order."""
    yield from sorted(json.dumps(row, ensure_ascii=False) for row in rows_of(frame))


# Each answer is a Spark job, so of earlier batches the second and each fifth after it have one.
_EARLIER, _EVERY = 1, 5

_JOIN_FAMILIES = {
    "3": ("keyToNumValues", "keyWithIndexToValue"),
    "4": ("keyWithTsToValues", "tsWithKey"),
}


class Answers:
    """Writes `expected/` of one fixture with Spark's `statestore` and `state-metadata` readers."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        """`folder` has the checkpoint and the settings of the query, in `query.json`."""
        self._spark = spark
        self._folder = folder
        self._checkpoint = folder / "checkpoint"
        self.problems: list[str] = []

    def batches(self) -> list[int]:
        """The committed batches."""
        names = [p.name for p in (self._checkpoint / "commits").iterdir()]
        return sorted(int(name) for name in names if name.isdecimal())

    def batch_time_ms(self, batch: int) -> int:
        """The time that Spark recorded with a batch, in milliseconds."""
        _, metadata, *_ = (self._checkpoint / "offsets" / str(batch)).read_text().splitlines()
        return int(json.loads(metadata)["batchTimestampMs"])

    def _join_format(self) -> str:
        about = json.loads((self._folder / "query.json").read_text())
        return str(about["settings"]["spark.sql.streaming.join.stateFormatVersion"])

    def operators(self) -> list[dict[str, Any]]:
        """The rows of Spark's `state-metadata` reader; without metadata (3.5) by the folders."""
        frame = self._spark.read.format("state-metadata").load(str(self._checkpoint))
        rows = [row.asDict(recursive=True) for row in frame.collect()]
        return rows or list(self._operators_by_folder())

    def _operators_by_folder(self) -> Iterator[dict[str, Any]]:
        for folder in sorted((self._checkpoint / "state").iterdir()):
            stores = sorted(path.name for path in (folder / "0").glob("*-key*"))
            name = "symmetricHashJoin" if stores else ""
            for store in stores or ["default"]:
                yield {
                    "operatorId": int(folder.name),
                    "operatorName": name,
                    "stateStoreName": store,
                }

    def write(self) -> dict[str, Any]:
        """Writes all answers and returns their schemas by file name."""
        schemas: dict[str, Any] = {}
        expected = self._folder / "expected"
        expected.mkdir(exist_ok=True)
        batches = self.batches()
        for name, options in self.readings():
            for batch in sorted({batches[-1], *batches[_EARLIER::_EVERY]}, reverse=True):
                file = f"{name}.jsonl" if batch == batches[-1] else f"{name}@{batch}.jsonl"
                try:
                    frame = self.frame(options, batch)
                    text = "".join(f"{line}\n" for line in lines(frame))
                except Exception as error:  # noqa: BLE001 - refusals of many classes
                    self.problems.append(f"{file}: {type(error).__name__}: {str(error)[:300]}")
                    if batch == batches[-1]:
                        break
                    continue
                (expected / file).write_text(text)
                if batch == batches[-1]:
                    schemas[name] = {"options": options, "schema": json.loads(frame.schema.json())}
        return schemas

    def frame(self, options: dict[str, str], batch: int) -> DataFrame:
        """What Spark's reader has of one state as of a batch."""
        reader = self._spark.read.format("statestore").options(**options)
        return reader.option("batchId", batch).load(str(self._checkpoint))

    def readings(self) -> Iterator[tuple[str, dict[str, str]]]:
        """The file name and the reader's options of each state that the checkpoint has."""
        for operator in self.operators():
            number, store = operator["operatorId"], operator["stateStoreName"]
            options = {"operatorId": str(number)}
            if operator["operatorName"] == "symmetricHashJoin":
                if store.startswith("left-keyToNum") or store == "default":
                    for side in ("left", "right"):
                        yield f"{number}.{side}", {**options, "joinSide": side}
                stores = [store]
                if store == "default":
                    kinds = _JOIN_FAMILIES[self._join_format()]
                    stores = [f"{side}-{kind}" for side in ("left", "right") for kind in kinds]
                for name in stores:
                    yield f"{number}.{name}", {**options, "storeName": name}
                continue
            properties = json.loads(operator.get("operatorProperties") or "{}")
            if operator["operatorName"].startswith("transformWithState"):
                variables = properties.get("stateVariables") or []
                if isinstance(variables, str):
                    variables = json.loads(variables)
                for variable in variables:
                    state = variable["stateName"]
                    if state.startswith(("$procTimers", "$eventTimers")):
                        timers = {**options, "readRegisteredTimers": "true"}
                        yield f"{number}.timers", timers
                        continue
                    yield f"{number}.{state}", {**options, "stateVarName": state}
                continue
            yield f"{number}.{store}", {**options, "storeName": store}
