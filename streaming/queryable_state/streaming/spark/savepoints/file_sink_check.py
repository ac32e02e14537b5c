"""Check of a file sink's log against a query that starts from a savepoint.

A file sink (parquet, json, csv ... by `writeStream`) logs its batches in `_spark_metadata`, and
skips a batch whose number is not greater than the newest one in the log. A query that starts from
a savepoint reuses batch numbers for other data. The sink would silently skip these batches, and
their operators would not run.

The log must also be without gaps, else Spark can neither read nor compact it. So for a query that
starts after batch N with an empty output folder, the check writes log entries without files for
the batches 0 to N: one each, or a single `.compact` entry if a compaction is due before N.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from queryable_state.streaming.spark.savepoints.seeding import ORIGIN
from queryable_state.streaming.spark.savepoints.spark_files import SparkFiles
from queryable_state.wire.errors import RestoreMismatchError

if TYPE_CHECKING:
    from pyspark import SparkContext

_FILE_SINK = re.compile(r"FileSink\[(?P<path>.*)\]", re.DOTALL)
_LOG = "_spark_metadata"
_COMPACT = ".compact"
_NO_ENTRIES = b"v1"


def check_sink(
    context: SparkContext, location: SparkFiles, sink: str, compact_interval: int
) -> RestoreMismatchError | None:
    """Why a query from a savepoint must not start with its sink; None if it may.

    `location` is the query's Spark checkpoint, `sink` is Spark's description of the sink, and
    `compact_interval` is the number of batches between log compactions. Initializes the log of a
    new sink.
    """
    found = _FILE_SINK.fullmatch(sink)
    content = location.read(ORIGIN) if found else None
    if found is None or content is None:
        return None
    origin: dict[str, Any] = json.loads(content)
    log = SparkFiles.of(context, f"{found['path']}/{_LOG}")
    written = _newest(log.names())
    planned, committed = _newest(location.names("offsets")), _newest(location.names("commits"))
    query = f"the query starts from {origin['savepoint']}, after batch {origin['batch']}, and"
    if written is None:
        if committed is not None:
            for name in _empty_entries(committed, compact_interval):
                log.write(name, _NO_ENTRIES)
    elif planned is not None and written > planned:
        return RestoreMismatchError(
            f"{query} continues with batch {planned + 1}; its file sink {found['path']} already "
            f"has batches up to {written} ({_LOG}) and would silently skip batches {planned + 1} "
            f"to {written}. Give the query an empty output folder. The old folder keeps the rows "
            "up to the savepoint, and rows that the new folder will have too"
        )
    elif committed is not None and written < committed:
        return RestoreMismatchError(
            f"{query} has committed batch {committed}; its file sink {found['path']} has batches "
            f"only up to {written} ({_LOG}), and Spark cannot read an output with a gap. Give the "
            "query an empty output folder, or the output folder of the savepoint's query"
        )
    return None


def skipped_batch(context: SparkContext, sink: str, batch_id: int) -> str:
    """Why a file sink would skip a replayed batch; empty if it would not.

    `sink` is Spark's description of the sink.
    """
    found = _FILE_SINK.fullmatch(sink)
    written = _newest(SparkFiles.of(context, f"{found['path']}/{_LOG}").names()) if found else None
    if found is None or written is None or written < batch_id:
        return ""
    return (
        f"the file sink {found['path']} has batch {batch_id} in its log and will skip it, so the "
        f"batch will be refused again: remove {found['path']}/{_LOG}/{batch_id} and later entries; "
        "the replayed batches write their files again"
    )


def _empty_entries(newest: int, compact_interval: int) -> list[str]:
    """Names of the log entries of the batches up to the newest one.

    Spark derives its interval from the newest `.compact` file. One below the configured interval
    would make Spark compact too often.
    """
    if newest + 1 < compact_interval:
        return [str(number) for number in range(newest + 1)]
    return [f"{newest}{_COMPACT}"]


def _newest(names: list[str]) -> int | None:
    """The newest batch in a Spark log, with entries like `7` and `9.compact`; None if empty."""
    plain = (name.removesuffix(_COMPACT) for name in names)
    return max((int(name) for name in plain if name.isdigit()), default=None)
