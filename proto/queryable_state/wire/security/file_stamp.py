"""Stamp of a file: the attributes that change with its content or its permissions."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class FileStamp(NamedTuple):
    """Attributes of one file."""

    modified_ns: int
    changed_ns: int
    """Also changes with the owner and the mode, which may make the file readable."""
    size: int
    inode: int

    @classmethod
    def of(cls, path: str) -> FileStamp | None:
        """The stamp of a file now; None if there is none, or it cannot be looked at."""
        try:
            found = Path(path).stat()
        except OSError:
            return None
        return cls(found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)
