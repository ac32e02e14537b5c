"""Backlogs of sources: what waits in a source after a batch, from Spark's progress of the batch."""

from __future__ import annotations

import json
import logging
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from py4j.protocol import Py4JError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_log = logging.getLogger("queryable_state.streaming")

_FILE_SOURCE = "FileStreamSource["
_UNREAD = "unreadFiles"


class Backlog(NamedTuple):
    """An amount of what waits."""

    amount: int
    unit: str
    """"rows", "files" or "bytes"; empty: unknown."""


UNKNOWN = Backlog(0, "")


def backlog_of(source: Mapping[str, Any]) -> Backlog:
    """The backlog that the progress of a source names.

    Kafka's is the distance of its offsets. Other sources name files or bytes in their metrics, or
    how many offsets their partitions are behind.
    """
    end, latest = (_offsets(source.get(name)) for name in ("endOffset", "latestOffset"))
    if end and latest:
        # Where a new partition begins is not known yet.
        behind = (offset - end.get(part, offset) for part, offset in latest.items())
        return Backlog(sum(max(0, each) for each in behind), "rows")
    metrics = source.get("metrics") or {}
    for name, unit in (("numFilesOutstanding", "files"), ("numBytesOutstanding", "bytes")):
        if name in metrics:
            return Backlog(int(float(metrics[name])), unit)
    return _of_offsets_behind(metrics, len(end))


def _of_offsets_behind(metrics: Mapping[str, Any], partitions: int) -> Backlog:
    """The backlog by the metrics of Spark's `ReportsSourceMetrics` sources.

    `avg`, `max` and `minOffsetsBehindLatest` are over the partitions of the source: the average
    times their number is what waits. If the number is unknown (0), the largest metric is returned:
    at least so many rows wait.
    """
    behind = {
        name: _finite(metrics.get(f"{name}OffsetsBehindLatest")) for name in ("avg", "max", "min")
    }
    known = [each for each in behind.values() if each is not None]
    if not known:
        return UNKNOWN
    total = max(known)
    if partitions and behind["avg"] is not None:
        total = behind["avg"] * partitions
    return Backlog(max(0, round(total)), "rows")


def _finite(text: Any) -> float | None:
    """The number of a metric; None if it is absent or no finite number."""
    try:
        number = float(text)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def file_backlogs(execution: Any, descriptions: Sequence[str]) -> dict[int, Backlog]:
    """Files that the file sources of an active `StreamExecution` have listed and not read.

    By position of the source. Spark's progress does not name them, so they are read from a private
    field of its source; a version of Spark without that field has no such backlogs.
    """
    positions = [at for at, text in enumerate(descriptions) if text.startswith(_FILE_SOURCE)]
    if not positions or execution is None:
        return {}
    found: dict[int, Backlog] = {}
    try:
        sources = execution.sources()
        for position in positions:
            source = sources.apply(position)
            field = source.getClass().getDeclaredField(_UNREAD)
            field.setAccessible(True)
            unread = field.get(source)
            found[position] = Backlog(0 if unread is None else int(unread.size()), "files")
    except (Py4JError, TypeError, OSError) as problem:
        _log.debug("the backlogs of file sources are not known: %r", problem)
    return found


def _offsets(value: Any) -> dict[tuple[str, str], int]:
    """Offsets by topic and partition, as Kafka's source writes them; empty: of another form."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    if not isinstance(value, dict):
        return {}
    offsets = {}
    for topic, parts in value.items():
        if not isinstance(parts, dict):
            return {}
        for part, offset in parts.items():
            if not isinstance(offset, int) or not part.isdigit():
                return {}
            offsets[topic, part] = offset
    return offsets
