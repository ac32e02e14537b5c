"""Marker sources in the offset log of a query whose program begins or ceases to need one.

Spark matches the offsets in a checkpoint with the sources of the plan by their places. The only
marker source of a job is its last source.
"""

from __future__ import annotations

import json

from queryable_state.streaming.spark.savepoints.progress_export import source_offsets
from queryable_state.streaming.spark.sources.marker_offset import MarkerOffset
from queryable_state.wire.errors import RestoreMismatchError

_KNOWN_VERSION = "v1"


def with_markers(content: bytes, markers: int, where: str) -> bytes:
    """A file of `offsets/` for a query with this number of marker sources.

    Raises RestoreMismatchError, naming `where`, if the places of the other sources would change.
    """
    version, *_ = lines = content.decode().split("\n")
    is_marker = [MarkerOffset.parse(each) is not None for each in source_offsets(content).values()]
    found = sum(is_marker)
    if found == markers:
        return content
    last = bool(is_marker) and is_marker[-1]
    if version != _KNOWN_VERSION or {found, markers} != {0, 1} or last != bool(found):
        raise RestoreMismatchError(
            f"{where} has {found} marker sources, and the query needs {markers}: with several "
            "sources they cannot be added or removed. Keep the functions with timers, or end the "
            "streams with sinks and call execute(), whose jobs have one marker source"
        )
    if found:
        return "\n".join(lines[:-1]).encode()
    return "\n".join([*lines, json.dumps(MarkerOffset().as_dict())]).encode()


def check_markers(content: bytes, where: str, job_name: str, *, needs_clock: bool) -> None:
    """Raises RestoreMismatchError, naming `where`, if Spark would refuse the checkpoint of a job,
    because its program has begun or ceased to need a marker source.

    `content` is the newest file of its `offsets/`.
    """
    offsets = source_offsets(content).values()
    has_marker = any(MarkerOffset.parse(each) is not None for each in offsets)
    if has_marker == needs_clock:
        return
    change = (
        "it has functions with timers now, and had none"
        if needs_clock
        else "it has no function with timers any more"
    )
    raise RestoreMismatchError(
        f"job {job_name!r} cannot continue from Spark's checkpoint {where}: {change}, so it "
        "has another number of sources, which Spark does not accept in a checkpoint. Start the "
        "former program, stop it with stop_with_savepoint(), and start this one with another name "
        "or checkpoint location and savepoint=..."
    )
