"""Seeding of a query's Spark checkpoint and state root from a savepoint, at its first start.

Write order: the root's registrations, which contain the new job id and the savepoint; the files of
Spark's checkpoint; finally its `metadata`, which contains the query's id. Spark itself writes
`metadata` first, so a location without it was interrupted during seeding. It is then seeded again,
with the id from the registrations.
"""

from __future__ import annotations

import json
import logging
import uuid
from typing import TYPE_CHECKING

from queryable_state.streaming.spark.savepoints.marker_offsets import with_markers
from queryable_state.streaming.spark.savepoints.query_sources import SOURCES, written
from queryable_state.streaming.spark.savepoints.stored_query_id import stored_query_id
from queryable_state.wire.errors import RestoreMismatchError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from queryable_state.internal.v1.checkpoint_pb2 import RootRegistrations
    from queryable_state.server.checkpoint.state_root import StateRoot
    from queryable_state.streaming.spark.savepoints.savepoint import Savepoint
    from queryable_state.streaming.spark.savepoints.source_offsets import MovedSources
    from queryable_state.streaming.spark.savepoints.spark_files import SparkFiles

_log = logging.getLogger("queryable_state.streaming")

ORIGIN = "restored_from.json"
"""File in Spark's checkpoint location with the savepoint and the batch it was seeded from."""

_METADATA = "metadata"
_OFFSETS = "offsets/"


def seed(
    savepoint: Savepoint,
    location: SparkFiles,
    root: StateRoot,
    job_name: str,
    *,
    left_behind: Iterable[str] = (),
    allow_non_restored_state: bool = False,
    markers: int = 0,
    sources: MovedSources | None = None,
) -> uuid.UUID:
    """Seeds a query from the savepoint; returns the query's id.

    State of the operators in `left_behind` (uids) is not restored. With `allow_non_restored_state`
    the other operators may lack states that they have in the savepoint. If an earlier call seeded
    the query, nothing changes and the query continues from its own checkpoint. `sources` are those
    of the query; if they are unknown, it has the sources of the savepoint, and `markers` is the
    number of its marker sources. Raises RestoreMismatchError, without writing, if
    the location or the root contains other data, or the number of markers does not fit.
    """
    progress = _progress(savepoint, markers, sources)
    record = root.registrations()
    if record is not None:
        return _again(record, savepoint, location, root, progress)
    if root.exists():
        raise _taken(f"{root.uri} already holds state", root, location)
    names = [name for name in location.walk() if not name.endswith(".crc")]
    if names:
        what = "Spark's checkpoint of a query" if _METADATA in names else f"files ({names[0]}, …)"
        raise _taken(f"{location.root} already holds {what}", root, location)
    query_id = uuid.uuid4()
    root.start_from(
        savepoint.uri,
        savepoint.version,
        job_id=query_id.bytes,
        job_name=job_name,
        left_behind=left_behind,
        allow_non_restored_state=allow_non_restored_state,
    )
    _write(savepoint, location, query_id, progress)
    return query_id


def seeded(uri: str, location: SparkFiles, root: StateRoot) -> uuid.UUID | None:
    """The id of the query that an earlier start has seeded from a savepoint; None if none has."""
    record = root.registrations()
    own = stored_query_id(location)
    if record is None or own is None or own.bytes != record.job_id:
        return None
    return own if record.restored_from.rstrip("/") == uri.rstrip("/") else None


def _progress(
    savepoint: Savepoint, markers: int, sources: MovedSources | None
) -> dict[str, Callable[[], bytes]]:
    """The files of Spark's progress for the query, by name."""
    found: dict[str, Callable[[], bytes]] = {}
    for name in savepoint.progress_files():
        moved = name if sources is None else sources.name(name)
        if moved is not None and name != _METADATA and not name.endswith(".crc"):
            found[moved] = _fitted(name, savepoint, markers, sources)
    if sources is not None:
        record = written(sources.wanted)
        found[SOURCES] = lambda: record
    return found


def _fitted(
    name: str, savepoint: Savepoint, markers: int, sources: MovedSources | None
) -> Callable[[], bytes]:
    """The content of a file of Spark's progress; read at once if it depends on the sources."""
    if not name.startswith(_OFFSETS):
        return lambda: savepoint.progress(name)
    content = savepoint.progress(name)
    if sources is not None:
        content = sources.offsets(content)
    else:
        content = with_markers(content, markers, savepoint.label)
    return lambda: content


def _again(
    record: RootRegistrations,
    savepoint: Savepoint,
    location: SparkFiles,
    root: StateRoot,
    progress: Mapping[str, Callable[[], bytes]],
) -> uuid.UUID:
    query_id = uuid.UUID(bytes=record.job_id)
    if record.restored_from.rstrip("/") != savepoint.uri:
        origin = f", started from {record.restored_from}" if record.restored_from else ""
        raise _taken(
            f"{root.uri} holds the state of job {record.job_name!r} ({query_id.hex}){origin}",
            root,
            location,
        )
    own = stored_query_id(location)
    if own is None:
        if root.newest_epoch() > 0:
            raise _taken(
                f"{root.uri} holds the state of a query that was started from this savepoint, but "
                f"its Spark checkpoint is not in {location.root}",
                root,
                location,
            )
        _write(savepoint, location, query_id, progress)
    elif own != query_id:
        raise _taken(f"{location.root} holds Spark's checkpoint of query {own}", root, location)
    else:
        _log.info(
            "query %s was already started from %s: it continues from its own checkpoint %s",
            query_id,
            savepoint.uri,
            location.root,
        )
    return query_id


def _write(
    savepoint: Savepoint,
    location: SparkFiles,
    query_id: uuid.UUID,
    progress: Mapping[str, Callable[[], bytes]],
) -> None:
    for name, content in progress.items():
        location.write(name, content())
    origin = {"savepoint": savepoint.uri, "batch": savepoint.version}
    location.write(ORIGIN, json.dumps(origin).encode())
    location.write(_METADATA, json.dumps({"id": str(query_id)}).encode())
    _log.info("query %s starts from %s, after batch %d", query_id, savepoint.uri, savepoint.version)


def _taken(what: str, root: StateRoot, location: SparkFiles) -> RestoreMismatchError:
    return RestoreMismatchError(
        f"{what}: a start from a savepoint would mix two histories. To continue from the existing "
        "data omit the savepoint; to start from the savepoint give the job another name or another "
        f"checkpoint location, or remove {root.uri} and {location.root} if they are not needed"
    )
