"""Temporary checkpoint locations that last as long as the driver."""

from __future__ import annotations

import shutil
import tempfile
import threading
import uuid
from pathlib import Path

_PREFIX = "queryable-state-checkpoints-"


class ScratchFolder:
    """A folder in the driver's temporary directory, created on first use. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._path: Path | None = None

    def location(self) -> str:
        """URI of a new location, named like Spark's temporary locations."""
        with self._lock:
            if self._path is None:
                self._path = Path(tempfile.mkdtemp(prefix=_PREFIX))
            return (self._path / f"temporary-{uuid.uuid4()}").as_uri()

    def remove(self) -> None:
        """Deletes the folder. Idempotent."""
        with self._lock:
            path, self._path = self._path, None
        if path is not None:
            shutil.rmtree(path, ignore_errors=True)


def outlives_query(location: str) -> bool:
    """True if a temporary location is in a scratch folder, so Spark does not remove it."""
    return f"/{_PREFIX}" in location
