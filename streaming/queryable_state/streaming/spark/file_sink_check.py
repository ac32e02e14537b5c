"""A query that was set back behind what its file sink has already written.

A file sink (parquet, json, csv ... by `writeStream`) keeps a log of the batches it has, in
`_spark_metadata`, and skips a batch whose number is not beyond the newest one in it. A query that
begins behind a savepoint gives these numbers to other data, which would be missing in the output
without a word; and its operators would not even run.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from queryable_state.streaming.spark.savepoint_seeding import ORIGIN
from queryable_state.streaming.spark.spark_files import SparkFiles
from queryable_state.wire.errors import RestoreMismatchError

if TYPE_CHECKING:
    from pyspark import SparkContext

_FILE_SINK = re.compile(r"FileSink\[(?P<path>.*)\]", re.DOTALL)
_LOG = "_spark_metadata"


def skipped_by_sink(
    context: SparkContext, location: SparkFiles, sink: str
) -> RestoreMismatchError | None:
    """Why a query from a savepoint must not start; None: it may.

    `location` is its Spark checkpoint, `sink` Spark's description of its sink.
    """
    found = _FILE_SINK.fullmatch(sink)
    origin = location.read(ORIGIN) if found else None
    if found is None or origin is None:
        return None
    begun = max(_numbers(location.names("offsets")), default=-1)
    written = max(_numbers(SparkFiles.of(context, f"{found['path']}/{_LOG}").names()), default=-1)
    if written <= begun:
        return None
    savepoint: dict[str, Any] = json.loads(origin)
    return RestoreMismatchError(
        f"the query starts from {savepoint['savepoint']}, behind batch {savepoint['batch']}, and "
        f"goes on with batch {begun + 1}; its file sink {found['path']} has batches up to "
        f"{written} already ({_LOG}) and would skip batches {begun + 1} to {written} without a "
        "word. Give the query another output folder; rows of the batches beyond the savepoint are "
        "in the old one, too"
    )


def _numbers(names: list[str]) -> list[int]:
    """Batches in a log of Spark's: `7`, `9.compact`."""
    plain = (name.removesuffix(".compact") for name in names)
    return [int(name) for name in plain if name.isdigit()]
