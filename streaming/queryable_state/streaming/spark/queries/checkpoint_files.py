"""Offset log and commit log in a query's Spark checkpoint."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING

from queryable_state.server.coordinator.model.engine import BatchClocks
from queryable_state.streaming.spark.savepoints.progress_export import source_offsets
from queryable_state.streaming.spark.savepoints.spark_files import SparkFiles
from queryable_state.streaming.spark.sources.marker_offset import MarkerOffset
from queryable_state.wire.errors import CorruptDataError
from queryable_state.wire.event_time import END_OF_TIME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark import SparkContext

# Entry of the offset log for a source without an offset.
_NO_OFFSET = "-"
_TEMPORARY = re.compile(r"temporary-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class CheckpointFiles:
    """The logs of one checkpoint directory."""

    def __init__(self, context: SparkContext, root: str) -> None:
        self._files = SparkFiles(context, root)

    @property
    def root(self) -> str:
        """URI of the directory."""
        return self._files.root

    @property
    def files(self) -> SparkFiles:
        """Access to the files of the directory."""
        return self._files

    def clocks(self, batch_id: int) -> BatchClocks | None:
        """Clocks of a batch from its offsets; None if the offsets do not exist (any more)."""
        content = self._files.read(f"offsets/{batch_id}")
        if content is None:
            return None
        try:
            metadata = json.loads(content.split(b"\n", 2)[1])
            markers = [*filter(None, map(MarkerOffset.parse, source_offsets(content).values()))]
            ended = any(marker.ended for marker in markers)
            return BatchClocks(
                timestamp_ms=int(metadata["batchTimestampMs"]),
                watermark_ms=END_OF_TIME if ended else int(metadata["batchWatermarkMs"]),
                offsets_digest=hashlib.sha256(content).digest()[:16],
                clock_ids=tuple(marker.clock_id for marker in markers),
            )
        except (IndexError, KeyError, ValueError, TypeError) as problem:
            raise CorruptDataError(
                f"{self.root}/offsets/{batch_id} has no batch clocks in the format of Spark 4: "
                f"{problem!r}; check that no other Spark version uses the directory"
            ) from problem

    def has_input(self, batch_id: int, sources: Sequence[int]) -> bool | None:
        """True if a source has new offsets in a batch; None if the batch has no offsets (any more).

        `sources` are indexes of sources in the plan; empty means any source, as does an offset log
        in which sources have names, since these tell no index. A marker source has no input. A
        batch counts as one with input if the offsets of its predecessor no longer exist.
        """
        offsets = self._offsets(batch_id)
        if offsets is None:
            return None
        before = self._offsets(batch_id - 1) or {}
        asked = {str(each) for each in sources}
        if not asked or not all(key.isdigit() for key in offsets):
            asked = set(offsets)
        return any(
            offset not in (_NO_OFFSET, before.get(key))
            for key, offset in offsets.items()
            if key in asked and MarkerOffset.parse(offset) is None
        )

    def withdraw_commits(self, batch_id: int) -> None:
        """Removes the commits of a batch and of later batches, and the offsets of later batches.

        Commits are removed first: Spark restarts after the newest commit, and runs the batch of the
        newest offsets.
        """
        for log, first in (("commits", batch_id), ("offsets", batch_id + 1)):
            batches = (int(name) for name in self._files.names(log) if name.isdigit())
            for batch in sorted((batch for batch in batches if batch >= first), reverse=True):
                self._files.delete(f"{log}/{batch}")

    def _offsets(self, batch_id: int) -> dict[str, str] | None:
        """The offsets of a batch by source; None if the batch has no offsets."""
        content = self._files.read(f"offsets/{batch_id}")
        return None if content is None else source_offsets(content.rstrip(b"\n"))

    def is_committed(self, batch_id: int) -> bool:
        """True if the batch is in the commit log."""
        return self._files.exists(f"commits/{batch_id}")

    def newest_commit(self) -> int:
        """The newest batch in the commit log; -1 if there is none."""
        return newest_commit(self._files)

    def is_planned(self, batch_id: int) -> bool:
        """True if the batch is in the offset log."""
        return self._files.exists(f"offsets/{batch_id}")


def newest_commit(files: SparkFiles) -> int:
    """The newest batch committed in a checkpoint; -1 if there is none."""
    names = files.names("commits")
    return max((int(name) for name in names if name.isascii() and name.isdigit()), default=-1)


def is_temporary(root: str) -> bool:
    """True for a temporary checkpoint location of Spark, which it may remove."""
    return _TEMPORARY.fullmatch(root.rstrip("/").rpartition("/")[2]) is not None
