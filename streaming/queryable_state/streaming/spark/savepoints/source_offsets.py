"""Offsets and files of sources, moved to where the plan of another program has its sources."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from queryable_state.streaming.spark.savepoints.progress_export import (
    newest_offsets,
    source_offsets,
)
from queryable_state.streaming.spark.savepoints.query_sources import (
    SOURCES,
    SourceMatch,
    recorded,
    written,
)
from queryable_state.streaming.spark.sources.marker_offset import MarkerOffset
from queryable_state.wire.errors import RestoreMismatchError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.streaming.spark.savepoints.query_sources import QuerySource
    from queryable_state.streaming.spark.savepoints.spark_files import SparkFiles

_log = logging.getLogger("queryable_state.streaming")

_NO_OFFSET: Final = "-"
"""Spark's entry of a source that has not begun: it begins at its start."""
_FOLDER: Final = "sources/"


@dataclass(frozen=True, kw_only=True)
class MovedSources:
    """The progress of a query for a program with other sources, or with the same reordered."""

    match: SourceMatch
    stored: Sequence[QuerySource]
    """Of the progress, one per offset."""
    wanted: Sequence[QuerySource]
    """Of the program, one per offset."""
    where: str

    def offsets(self, content: bytes) -> bytes:
        """A file of `offsets/` of the progress, for the program."""
        version, metadata, *_ = content.decode().split("\n")
        found = source_offsets(content)
        missing = [each.key for each in self.stored if each.key not in found]
        if missing or len(found) != len({each.key for each in self.stored}):
            raise RestoreMismatchError(
                f"{self.where} has offsets of the sources {', '.join(sorted(found))}, and "
                f"{SOURCES} is of {', '.join(each.key for each in self.stored)}: the checkpoint is "
                "damaged; use another one"
            )
        of_folder = {each.folder: found[each.key] for each in self.stored}
        lines = {each.key: self._offset(each, of_folder) for each in self.wanted}
        if version == "v1":
            if any(not key.isdigit() for key in lines):
                raise RestoreMismatchError(
                    f"the sources of the job have names in Spark, and those in {self.where} have "
                    "none: set spark.sql.streaming.queryEvolution.enableSourceEvolution to false "
                    "and name no source; .uid() on their streams identifies them"
                )
            return "\n".join([version, metadata, *lines.values()]).encode()
        named = (f"{key}:{offset}" for key, offset in lines.items())
        return "\n".join([version, metadata, *named]).encode()

    def name(self, name: str) -> str | None:
        """The name of a file of the progress for the program; None: it has no such source."""
        if not name.startswith(_FOLDER):
            return name
        folder, _, rest = name.removeprefix(_FOLDER).partition("/")
        for each in self.wanted:
            before = self.match.origin(each)
            if before is not None and before.folder == folder:
                return f"{_FOLDER}{each.folder}/{rest}"
        return None

    def _offset(self, source: QuerySource, of_folder: dict[str, str]) -> str:
        before = self.match.origin(source)
        if before is not None:
            return of_folder[before.folder]
        return json.dumps(MarkerOffset().as_dict()) if source.is_marker else _NO_OFFSET


def moved_sources(
    content: bytes | None,
    wanted: Sequence[QuerySource],
    where: str,
    *,
    allow_non_restored_state: bool,
) -> MovedSources | None:
    """The progress of `where`, whose `sources.json` is `content`, for a program with the sources
    `wanted`; None if its sources are not recorded.

    Raises RestoreMismatchError if the program lacks sources, unless `allow_non_restored_state`.
    """
    stored = recorded(content, where)
    if stored is None:
        return None
    match = SourceMatch(stored, wanted, where)
    removed = ", ".join(each.label for each in match.removed)
    added = ", ".join(each.label for each in match.added)
    if removed and not allow_non_restored_state:
        new = f" The job has sources that are not in it: {added}." if added else ""
        raise RestoreMismatchError(
            f"{where} has the progress of sources that the job does not have: {removed}.{new} Keep "
            "these sources (a source that reads another place needs the uid that it had), or start "
            "with allow_non_restored_state=True, which gives up their progress and reads new "
            "sources from their start"
        )
    if removed:
        _log.warning("the progress of the sources %s in %s is given up", removed, where)
    if added:
        _log.warning(
            "%s has no progress of the sources %s: they are read from their start", where, added
        )
    return MovedSources(match=match, stored=stored, wanted=wanted, where=where)


def check_unrecorded(content: bytes, wanted: Sequence[QuerySource], where: str) -> None:
    """Raises RestoreMismatchError if a program has another number of sources than the progress of
    `where`, which does not record them; `content` is a file of its `offsets/`."""
    offsets = source_offsets(content).values()
    before = sum(MarkerOffset.parse(offset) is None for offset in offsets)
    data = [each.label for each in wanted if not each.is_marker]
    if before != len(data):
        raise RestoreMismatchError(
            f"{where} has the progress of {before} sources, and the job has {len(data)} "
            f"({', '.join(data)}); which of them go on is unknown, because {where} has no record "
            f"of its sources ({SOURCES}): an earlier version wrote it, or a query started with "
            "writeStream. Start a job with the former sources from it, take another savepoint of "
            "that job, and start from that"
        )


def check_sources(
    content: bytes, files: SparkFiles, job_name: str, wanted: Sequence[QuerySource]
) -> None:
    """Raises RestoreMismatchError if a job cannot continue from its own Spark checkpoint, because
    its program has other sources, or has them in another order.

    `content` is the newest file of its `offsets/`.
    """
    found = source_offsets(content)
    stored = recorded(files.read(SOURCES), files.root)
    change = None
    if len(found) != len({each.key for each in wanted}):
        labels = ", ".join(each.label for each in wanted)
        before = "" if stored is None else f": {', '.join(each.label for each in stored)}"
        change = f"it had {len(found)} sources{before}; now it has {len(wanted)}: {labels}"
    elif stored is not None and len(stored) == len(wanted):
        change = _moved(stored, wanted, files.root)
    if change is not None:
        raise RestoreMismatchError(
            f"job {job_name!r} cannot continue from Spark's checkpoint {files.root}: {change}. "
            "Spark finds the offset of a source by its place. Start the former program, stop it "
            "with stop_with_savepoint(), and start this one with another name or checkpoint "
            "location and savepoint=..., which finds sources by their uid"
        )


def started_sources(files: SparkFiles, wanted: Sequence[QuerySource]) -> None:
    """Checks the sources of a query that the user starts, and records them for its savepoints.

    They must be those of its Spark checkpoint, which may be seeded from a savepoint, in the same
    order. Raises RestoreMismatchError if they are not, CorruptDataError if the record is damaged.
    """
    offsets = newest_offsets(files)
    if offsets is not None:
        stored = recorded(files.read(SOURCES), files.root)
        found = source_offsets(offsets).values()
        before = sum(MarkerOffset.parse(each) is None for each in found)
        now = [each for each in wanted if not each.is_marker]
        known = [each for each in stored or () if not each.is_marker]
        change = None
        if before != len(now):
            labels = ", ".join(each.label for each in known)
            had = f"{before} sources{f' ({labels})' if labels else ''}"
            labels = ", ".join(each.label for each in now)
            change = f"it had {had}; now it has {len(now)} ({labels})"
        elif len(known) == len(now):
            change = _moved(known, now, files.root)
        if change is not None:
            raise RestoreMismatchError(
                f"the query cannot go on from Spark's checkpoint {files.root}: {change}. Spark "
                "finds the offset of a source by its place: start the query with the sources that "
                "it had when its checkpoint or savepoint was written, in the same order. To change "
                "them, start it as a job, with env.execute(savepoint=...), which finds sources by "
                "the .uid() of their streams"
            )
    record_sources(files, wanted)


def record_sources(files: SparkFiles, sources: Sequence[QuerySource]) -> None:
    """Writes the sources of a query that starts into its Spark checkpoint."""
    content = written(sources)
    if files.read(SOURCES) != content:
        files.write(SOURCES, content)


def _moved(stored: Sequence[QuerySource], wanted: Sequence[QuerySource], where: str) -> str | None:
    """Text on the first source that would get the offset of another one; None if none would."""
    match = SourceMatch(stored, wanted, where)
    gone = {each.folder for each in match.removed}
    for place, (before, now) in enumerate(zip(stored, wanted, strict=True), 1):
        origin = match.origin(now)
        if origin is None and before.folder in gone and not (before.uid and now.uid):
            # Its options have changed, which Spark allows.
            continue
        if origin is None or origin.folder != before.folder:
            return f"source {place} was {before.label} and is {now.label}"
    return None
