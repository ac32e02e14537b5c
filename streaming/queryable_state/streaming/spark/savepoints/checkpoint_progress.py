"""Spark's progress as of a retained checkpoint, from which a job under another name may start.

The metadata of a checkpoint has the logs of its batch, which Spark removes after some batches. The
files of the sources, and the state of Spark's own operators, are read in Spark's checkpoint of the
job that wrote it; nothing is written there.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from queryable_state.internal.v1.checkpoint_pb2 import EngineLog, EngineProgress
from queryable_state.server.checkpoint.layout import spark_folders
from queryable_state.streaming.spark.savepoints.progress_export import (
    BatchProgress,
    FileGoneError,
)
from queryable_state.streaming.spark.savepoints.spark_files import SparkFiles
from queryable_state.streaming.spark.savepoints.stored_query_id import stored_query_id
from queryable_state.wire.errors import CheckpointError, RestoreMismatchError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark import SparkContext

    from queryable_state.internal.v1.checkpoint_pb2 import CheckpointMetadata


def progress_of(files: SparkFiles, batch_id: int) -> EngineProgress:
    """The logs of a committed batch; raises CheckpointError if one is gone."""
    try:
        logs = [
            EngineLog(name=name, content=content)
            for name, content in BatchProgress(files, batch_id).logs()
        ]
    except FileGoneError as gone:
        raise CheckpointError(f"{files.root}/{gone} is gone") from gone
    return EngineProgress(location=files.root, logs=logs)


def progress_at(
    context: SparkContext, uri: str, root: str, metadata: CheckpointMetadata
) -> dict[str, Callable[[], bytes]]:
    """The files of Spark's progress as of the checkpoint `uri` of a state root, by name.

    Raises RestoreMismatchError if Spark's checkpoint no longer has what belongs to it.
    """
    kept = {log.name: log.content for log in metadata.progress.logs}
    files = _location(context, uri, root, metadata)
    progress = BatchProgress(files, metadata.version, kept)
    try:
        found = dict(progress.logs()) | dict(progress.sources())
        progress.check_state()
    except FileGoneError as gone:
        raise RestoreMismatchError(
            f"no job can start from checkpoint {uri}: it is of batch {metadata.version}, and "
            f"Spark's checkpoint {files.root} no longer has {gone}, which Spark removes after "
            "spark.sql.streaming.minBatchesToRetain batches. Start from a newer checkpoint or a "
            "savepoint"
        ) from gone
    contents: dict[str, Callable[[], bytes]] = {
        name: partial(bytes, content) for name, content in found.items()
    }
    return contents | {name: partial(progress.read, name) for name in progress.state()}


def _location(
    context: SparkContext, uri: str, root: str, metadata: CheckpointMetadata
) -> SparkFiles:
    """Spark's checkpoint of the job; a copied root has its own."""
    places = [*spark_folders(root), *filter(None, [metadata.progress.location])]
    for place in places:
        files = SparkFiles(context, _with_scheme(place))
        found = stored_query_id(files)
        if found is not None and found.bytes == metadata.job_id:
            return files
    raise RestoreMismatchError(
        f"no job can start from checkpoint {uri}: Spark's checkpoint of its job "
        f"{metadata.job_name!r} ({metadata.job_id.hex()}), which has the progress of the sources, "
        f"is not in {' or '.join(places)}. Restore that folder, or start from a savepoint, which "
        "contains it"
    )


def _with_scheme(place: str) -> str:
    """A local path as a URI: Spark's default file system may be another."""
    return f"file://{place}" if place.startswith("/") else place
