"""Files of snapshots that this executor's disk still has."""

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

    They outlive the server's process: the next server of the executor finds them. A link costs
    no space while the store has the file, too. Thread-safe: links are made and taken whole, and
    a file that goes meanwhile is one that is not there.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._kept: dict[bytes, list[frozenset[str]]] = {}

    def take(self, query_id: bytes, checksum: bytes, size_bytes: int, target: Path) -> bool:
        """Makes `target` a name of the file, if it is here and intact.

        One that is damaged is removed.
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
        """Keeps a file that never changes. What cannot be kept is only read again later."""
        copy = self._path(query_id, checksum, size_bytes)
        if copy.exists():
            return
        prepared = copy.with_name(f".{uuid.uuid4().hex}")
        try:
            copy.parent.mkdir(parents=True, exist_ok=True)
            link_or_copy(file, prepared)
            prepared.replace(copy)
        except OSError as problem:
            _log.warning("no local copy of %s is kept: %s", file, problem)
            prepared.unlink(missing_ok=True)

    def completed(self, query_id: bytes, files: Iterable[tuple[bytes, int]]) -> None:
        """A snapshot of all of a job here has these files: keeps those of the last ones only."""
        snapshots = self._kept.setdefault(query_id, [])
        snapshots.append(frozenset(_name(checksum, size) for checksum, size in files))
        del snapshots[:-_SNAPSHOTS_KEPT]
        kept = frozenset().union(*snapshots)
        with suppress(FileNotFoundError):
            for copy in list(self._folder(query_id).iterdir()):
                if copy.name not in kept and not copy.name.startswith("."):
                    copy.unlink(missing_ok=True)

    def forget_job(self, query_id: bytes) -> None:
        """Removes what is kept of a job."""
        self._kept.pop(query_id, None)
        shutil.rmtree(self._folder(query_id), ignore_errors=True)

    def _folder(self, query_id: bytes) -> Path:
        return self._directory / query_id.hex()

    def _path(self, query_id: bytes, checksum: bytes, size_bytes: int) -> Path:
        return self._folder(query_id) / _name(checksum, size_bytes)


def link_or_copy(source: Path, target: Path) -> None:
    """Another name of a file that never changes; a copy where the disk is another one."""
    try:
        target.hardlink_to(source)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(source, target)


def _name(checksum: bytes, size_bytes: int) -> str:
    return f"{checksum.hex()}-{size_bytes}"
