"""Translation of RocksDB and file errors into the errors of this library.

rocksdict raises plain `Exception`s with a text. Only a closed database has a type of
its own; any other error is a defect or a broken disk.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rocksdict import DbClosedError

from queryable_state.server.storage.refusals import store_closed
from queryable_state.wire.errors import (
    CheckpointError,
    CorruptDataError,
    InternalError,
    QueryableStateError,
    Reason,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# RocksDB's texts for ENOSPC, EDQUOT and EROFS, which reads do not meet.
_REFUSED = ("No space left on device", "Disk quota exceeded", "Read-only file system")


@contextmanager
def translating(action: str) -> Iterator[None]:
    """Translates errors of the block; `action` completes "RocksDB could not ..."."""
    try:
        yield
    except Exception as error:
        raise translated(error, action) from error


def translated(error: Exception, action: str) -> Exception:
    """The error of this library for an error of rocksdict."""
    if isinstance(error, QueryableStateError):
        return error
    if isinstance(error, DbClosedError):
        return store_closed()
    if any(words in str(error) for words in _REFUSED):
        return CheckpointError(
            f"RocksDB could not {action}: {error}: free space or quota on the disk of this "
            "executor, or allow writes there; nothing that was written is damaged",
            reason=Reason.STORAGE_WRITE_FAILED,
        )
    return InternalError(
        f"RocksDB could not {action}: {error}: check the disk of this executor (space, "
        "permissions, health) and the log of this server"
    )


@contextmanager
def reading_files(directory: Path) -> Iterator[None]:
    """Translates errors on reading the files of a native snapshot into `CorruptDataError`."""
    try:
        yield
    except CorruptDataError:
        raise
    except Exception as error:
        raise CorruptDataError(
            f"the RocksDB files under {directory} are damaged or incomplete: {error}"
        ) from error


@contextmanager
def writing_files(directory: Path) -> Iterator[None]:
    """Translates errors on writing files into `directory`."""
    try:
        yield
    except FileNotFoundError as error:
        raise CorruptDataError(f"the file {error.filename} does not exist") from error
    except OSError as error:
        raise CheckpointError(
            f"could not write {error.filename or directory}: {error.strerror}: check the space "
            f"and the permissions of {directory}",
            reason=Reason.STORAGE_WRITE_FAILED,
        ) from error
