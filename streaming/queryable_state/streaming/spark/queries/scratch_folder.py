"""Checkpoint locations that last as long as a driver."""

from __future__ import annotations

import shutil
import tempfile
import threading
import uuid
from pathlib import Path

_PREFIX = "queryable-state-checkpoints-"


class ScratchFolder:
    """A folder in the driver's temporary one, made when first needed. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._path: Path | None = None

    def location(self) -> str:
        """URI of a new location; its name is as those that Spark takes for temporary ones."""
        with self._lock:
            if self._path is None:
                self._path = Path(tempfile.mkdtemp(prefix=_PREFIX))
            return (self._path / f"temporary-{uuid.uuid4()}").as_uri()

    def remove(self) -> None:
        """Removes all of it. Idempotent."""
        with self._lock:
            path, self._path = self._path, None
        if path is not None:
            shutil.rmtree(path, ignore_errors=True)


def outlives_query(location: str) -> bool:
    """Whether a temporary location is one of these, unlike one that Spark removes itself."""
    return f"/{_PREFIX}" in location
