"""Local copies of snapshot files, on the executor's disk."""

from __future__ import annotations

import logging
import shutil
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING

from queryable_state.server.checkpoint.file_systems.storage import file_checksum

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_log = logging.getLogger(__name__)

_SNAPSHOTS_KEPT = 2


class LocalCopies:
    """Links to the files of each job's last snapshots, by content: `<job>/<checksum>-<size>`.

    They survive the server's process: the next server of the executor uses them. A hard link
    takes no space while the store has the file, too. Thread-safe: links are created and taken
    atomically, and a file that is removed concurrently counts as missing.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._kept: dict[bytes, list[frozenset[str]]] = {}

    def take(self, query_id: bytes, checksum: bytes, size_bytes: int, target: Path) -> bool:
        """Links the file at `target`; returns False if there is no intact copy.

        A damaged copy is removed.
        """
        copy = self._path(query_id, checksum, size_bytes)
        try:
            link_or_copy(copy, target)
            if target.stat().st_size == size_bytes and file_checksum(target) == checksum:
                return True
        except FileNotFoundError:
            return False
        except OSError as problem:
            _log.warning("the local copy %s cannot be used: %s", copy, problem)
            target.unlink(missing_ok=True)
            return False
        _log.warning("the local copy %s is damaged and removed", copy)
        target.unlink()
        copy.unlink(missing_ok=True)
        return False

    def add(self, query_id: bytes, checksum: bytes, size_bytes: int, file: Path) -> None:
        """Keeps a file that never changes. A failure is logged: the file is downloaded later."""
        copy = self._path(query_id, checksum, size_bytes)
        if copy.exists():
            return
        prepared = copy.with_name(f".{uuid.uuid4().hex}")
        try:
            copy.parent.mkdir(parents=True, exist_ok=True)
            link_or_copy(file, prepared)
            prepared.replace(copy)
        except OSError as problem:
            _log.warning("cannot keep a local copy of %s: %s", file, problem)
            prepared.unlink(missing_ok=True)

    def completed(self, query_id: bytes, files: Iterable[tuple[bytes, int]]) -> None:
        """Records the files of a completed snapshot; removes files that no recent one has."""
        snapshots = self._kept.setdefault(query_id, [])
        snapshots.append(frozenset(_name(checksum, size) for checksum, size in files))
        del snapshots[:-_SNAPSHOTS_KEPT]
        kept = frozenset().union(*snapshots)
        with suppress(FileNotFoundError):
            for copy in list(self._folder(query_id).iterdir()):
                if copy.name not in kept and not copy.name.startswith("."):
                    copy.unlink(missing_ok=True)

    def forget_job(self, query_id: bytes) -> None:
        """Removes all copies of a job."""
        self._kept.pop(query_id, None)
        shutil.rmtree(self._folder(query_id), ignore_errors=True)

    def _folder(self, query_id: bytes) -> Path:
        return self._directory / query_id.hex()

    def _path(self, query_id: bytes, checksum: bytes, size_bytes: int) -> Path:
        return self._folder(query_id) / _name(checksum, size_bytes)


def link_or_copy(source: Path, target: Path) -> None:
    """Links a file that never changes; copies it if `target` is on another disk."""
    try:
        target.hardlink_to(source)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(source, target)


def _name(checksum: bytes, size_bytes: int) -> str:
    return f"{checksum.hex()}-{size_bytes}"
