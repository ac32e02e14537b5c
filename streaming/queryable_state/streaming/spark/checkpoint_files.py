"""The two logs in a query's checkpoint: offsets of planned batches, commits of ended ones."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from queryable_state.server.coordinator.engine import BatchClocks
from queryable_state.wire.errors import CorruptDataError, RetryLaterError

if TYPE_CHECKING:
    from pyspark import SparkContext

_RETRY_AFTER_MS = 100


class CheckpointFiles:
    """Reads one checkpoint directory; local ones without the JVM."""

    def __init__(self, context: SparkContext, root: str) -> None:
        self._context = context
        self._root = root
        self._local = _local_path(root)

    @property
    def root(self) -> str:
        """The directory, as Spark names it."""
        return self._root

    def clocks(self, batch_id: int) -> BatchClocks | None:
        """Clocks of a batch from its offsets; None where there are none (any more)."""
        content = self._read(f"offsets/{batch_id}")
        if content is None:
            return None
        # First line: version of the log; second: its metadata; then an offset a source.
        try:
            metadata = json.loads(content.split(b"\n", 2)[1])
            return BatchClocks(
                timestamp_ms=int(metadata["batchTimestampMs"]),
                watermark_ms=int(metadata["batchWatermarkMs"]),
                offsets_digest=hashlib.sha256(content).digest()[:16],
            )
        except (IndexError, KeyError, ValueError, TypeError) as problem:
            raise CorruptDataError(
                f"{self._root}/offsets/{batch_id} has no batch clocks as Spark 4 writes them: "
                f"{problem!r}; is the directory used by another version of Spark?"
            ) from problem

    def is_committed(self, batch_id: int) -> bool:
        """Whether the batch is in the commit log."""
        name = f"commits/{batch_id}"
        if self._local is not None:
            return (self._local / name).exists()
        try:
            path, system = self._remote(name)
            return bool(system.exists(path))
        except Py4JError as problem:
            raise self._unreadable(name, problem) from problem

    def _read(self, name: str) -> bytes | None:
        if self._local is not None:
            try:
                return (self._local / name).read_bytes()
            except FileNotFoundError:
                return None
            except OSError as problem:
                raise self._unreadable(name, problem) from problem
        try:
            path, system = self._remote(name)
            if not system.exists(path):
                return None
            stream = system.open(path)
            try:
                return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()
        except Py4JError as problem:
            raise self._unreadable(name, problem) from problem

    def _remote(self, name: str) -> tuple[Any, Any]:
        path = self._jvm.org.apache.hadoop.fs.Path(f"{self._root}/{name}")
        return path, path.getFileSystem(self._context._jsc.hadoopConfiguration())

    @property
    def _jvm(self) -> Any:
        return self._context._jvm

    def _unreadable(self, name: str, problem: Exception) -> RetryLaterError:
        return RetryLaterError(
            f"{self._root}/{name} cannot be read now: {problem}", retry_after_ms=_RETRY_AFTER_MS
        )


def _local_path(root: str) -> Path | None:
    """The directory where it is on this machine's file system; Spark does not escape it."""
    if root.startswith("file:"):
        return Path(re.sub(r"^file:/*", "/", root))
    return Path(root) if root.startswith("/") else None
