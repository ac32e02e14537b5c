"""Spark's own conversions of rows of one struct, run in the JVM without a job."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession


class SparkProjection:
    """The JVM's rows of one struct: made of Python's values, read and written by generated code."""

    def __init__(self, spark: SparkSession, schema: dict[str, Any]) -> None:
        """`schema` is Spark's JSON of the struct."""
        self._jvm: Any = cast("Any", spark._jvm)
        self._schema = schema
        sql = self._jvm.org.apache.spark.sql
        self._expressions = sql.catalyst.expressions
        self._struct = sql.types.DataType.fromJson(json.dumps(schema))
        self._write = self._expressions.UnsafeProjection.create(self._struct)
        self._take_apart = self._expressions.SafeProjection.create(self._struct)
        self._python = sql.execution.python.EvaluatePython

    def rows(self, values: Sequence[Sequence[Any]]) -> list[Any]:
        """The JVM's rows of these values, as PySpark hands them over."""
        from pyspark.sql.types import StructType

        schema = StructType.fromJson(self._schema)
        pickled = pickle.dumps([schema.toInternal(tuple(row)) for row in values], protocol=4)
        self._python.registerPicklers()
        from_python = self._python.makeFromJava(self._struct)
        unpickled = self._jvm.net.razorvine.pickle.Unpickler().loads(pickled)
        return [from_python.apply(row) for row in unpickled]

    def written(self, row: Any) -> bytes:
        """The bytes of the UnsafeRow of a row.

        Of a null interval, or timestamp of nanoseconds, Spark leaves the bytes of the row before
        it in the buffer: rows of these types need a projection each.
        """
        return bytes(self._mapped(row, self._write).getBytes())

    def read(self, data: bytes) -> Any:
        """The row of the bytes of an UnsafeRow, taken apart."""
        row = self._expressions.UnsafeRow(len(self._schema["fields"]))
        row.pointTo(data, len(data))
        return self._mapped(row, self._take_apart)

    def _mapped(self, row: Any, projection: Any) -> Any:
        # A method of the projection itself cannot be called: py4j mistakes generated classes of
        # different structs for each other.
        rows = self._jvm.org.apache.spark.api.python.PythonUtils.toSeq([row])
        return rows.map(projection).head()

    def partition(self, row: Any, columns: Sequence[int], partitions: int) -> int:
        """The partition that Spark's hash partitioning by these columns gives a row."""
        fields = self._struct.fields()
        references = [
            self._expressions.BoundReference(column, fields[column].dataType(), True)
            for column in columns
        ]
        to_seq = self._jvm.org.apache.spark.api.python.PythonUtils.toSeq
        physical = self._jvm.org.apache.spark.sql.catalyst.plans.physical
        partitioning = physical.HashPartitioning(to_seq(references), partitions)
        found: int = partitioning.partitionIdExpression().eval(row)
        return found
