"""A query from a savepoint and the log of its file sink.

A file sink (parquet, json, csv ... by `writeStream`) keeps a log of the batches it has, in
`_spark_metadata`, and skips a batch whose number is not beyond the newest one in it. A query that
begins behind a savepoint gives these numbers to other data, which would be missing in the output
without a word; and its operators would not even run.

A log must have every number, too, or Spark can neither read nor compact it. In an empty folder the
log of a query that begins behind batch N is begun with entries that list no file: for 0 to N one
each, or one `.compact` where the first compaction would be past.
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
    """Why a query from a savepoint must not start with its sink; None: it may.

    `location` is its Spark checkpoint, `sink` Spark's description of its sink, `compact_interval`
    how often the sink compacts its log. Begins the log of a sink that is new.
    """
    found = _FILE_SINK.fullmatch(sink)
    content = location.read(ORIGIN) if found else None
    if found is None or content is None:
        return None
    origin: dict[str, Any] = json.loads(content)
    log = SparkFiles.of(context, f"{found['path']}/{_LOG}")
    written = _newest(log.names())
    planned, committed = _newest(location.names("offsets")), _newest(location.names("commits"))
    query = f"the query starts from {origin['savepoint']}, behind batch {origin['batch']}, and"
    if written is None:
        if committed is not None:
            for name in _begun(committed, compact_interval):
                log.write(name, _NO_ENTRIES)
    elif planned is not None and written > planned:
        return RestoreMismatchError(
            f"{query} goes on with batch {planned + 1}; its file sink {found['path']} has batches "
            f"up to {written} already ({_LOG}) and would skip batches {planned + 1} to {written} "
            "without a word. Give the query an empty output folder; the old one has the rows up to "
            "the savepoint, and rows that will be in the new one, too"
        )
    elif committed is not None and written < committed:
        return RestoreMismatchError(
            f"{query} has committed batch {committed}; its file sink {found['path']} has batches "
            f"up to {written} ({_LOG}), and Spark cannot read an output with a gap. Give the query "
            "an empty output folder, or the one that the savepoint's query wrote to"
        )
    return None


def skipped_batch(context: SparkContext, sink: str, batch_id: int) -> str:
    """Why a file sink would skip a batch that is to run again; empty: it would not.

    `sink` is Spark's description of the sink.
    """
    found = _FILE_SINK.fullmatch(sink)
    written = _newest(SparkFiles.of(context, f"{found['path']}/{_LOG}").names()) if found else None
    if found is None or written is None or written < batch_id:
        return ""
    return (
        f"the file sink {found['path']} has batch {batch_id} in its log and will skip it, so the "
        f"batch is refused again: remove {found['path']}/{_LOG}/{batch_id} and later entries, "
        "whose files the batch will write again"
    )


def _begun(newest: int, compact_interval: int) -> list[str]:
    """Names of the entries up to the newest one.

    Spark takes the interval from the newest `.compact` file: one below the interval that is set
    would have it compact more often, and so ever more slowly.
    """
    if newest + 1 < compact_interval:
        return [str(number) for number in range(newest + 1)]
    return [f"{newest}{_COMPACT}"]


def _newest(names: list[str]) -> int | None:
    """The newest batch in a log of Spark's: `7`, `9.compact`; None: there is none."""
    plain = (name.removesuffix(_COMPACT) for name in names)
    return max((int(name) for name in plain if name.isdigit()), default=None)
