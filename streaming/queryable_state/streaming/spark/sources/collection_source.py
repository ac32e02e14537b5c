"""Bounded streaming source of a collection, as a Python data source of Spark.

The rows are part of the source's options, as Arrow IPC. So the source needs no file that driver and
executors share: the driver plans one partition with the rows of a batch, and an executor's Python
worker returns them in their order. The offset is the number of elements read so far; a job that is
started again reads those after the offset in its checkpoint.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from queryable_state.streaming.runtime.operators.outputs import Outputs
from queryable_state.streaming.runtime.operators.spec import columns_of
from queryable_state.streaming.spark.types import schema
from queryable_state.wire.arrow.arrow_types import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from queryable_state.wire.schema.types import TypeInfo

_FORMAT: Final = "queryable_state_collection"
_ROWS: Final = "rows"
_OFFSET: Final = "elements"
_BATCH_ROWS: Final = 10_000


def collection_frame(
    session: SparkSession, elements: Sequence[Any], element: TypeInfo
) -> DataFrame:
    """A streaming DataFrame of these elements, in their order.

    Raises UserFunctionError if an element does not fit the type.
    """
    session.dataSource.register(CollectionSource)
    outputs = Outputs(element, _BATCH_ROWS, "from_collection")
    outputs.rows.extend(elements)
    fields = columns_of(element)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, arrow_schema(fields)) as writer:
        for batch in outputs.all_batches():
            writer.write_batch(batch)
    return (
        session.readStream.format(_FORMAT)
        .schema(schema(fields))
        .option(_ROWS, b64encode(sink.getvalue().to_pybytes()).decode())
        .load()
    )


class CollectionSource(DataSource):
    """The data source of a collection."""

    @classmethod
    def name(cls) -> str:
        return _FORMAT

    def streamReader(self, schema: StructType) -> CollectionReader:  # noqa: N802 - Spark's name
        return CollectionReader(self.options)


class CollectionPartition(InputPartition):
    """Rows of one batch, as Arrow IPC."""

    def __init__(self, rows: bytes) -> None:
        super().__init__(None)
        self.rows = rows


class CollectionReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets and partitions of a collection. All rows are available from the start."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._table = pa.ipc.open_stream(b64decode(options[_ROWS])).read_all()

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {_OFFSET: 0}

    def latestOffset(self, start: dict[str, int], limit: object) -> dict[str, int]:  # noqa: N802
        return {_OFFSET: max(start[_OFFSET], self._table.num_rows)}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        pass

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[CollectionPartition]:
        rows = self._table.slice(start[_OFFSET], end[_OFFSET] - start[_OFFSET])
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows, max_chunksize=_BATCH_ROWS)
        return [CollectionPartition(sink.getvalue().to_pybytes())]

    def read(self, partition: CollectionPartition) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        yield from pa.ipc.open_stream(partition.rows)
