"""What RocksDB raises, as the errors of this library.

rocksdict raises plain `Exception`s whose text is all they say. A closed
database is told apart by type; anything else is a defect or a broken disk.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rocksdict import DbClosedError

from queryable_state.wire.errors import (
    CheckpointError,
    CorruptDataError,
    InternalError,
    QueryableStateError,
    RetryLaterError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def translating(action: str) -> Iterator[None]:
    """Translate whatever the block raises; `action` completes "could not ..."."""
    try:
        yield
    except Exception as error:
        raise translated(error, action) from error


def translated(error: Exception, action: str) -> Exception:
    """The error of this library that stands for one of rocksdict."""
    if isinstance(error, QueryableStateError):
        return error
    if isinstance(error, DbClosedError):
        return RetryLaterError(
            "the store is closed: ask the owner of the key group", retry_after_ms=100
        )
    return InternalError(
        f"RocksDB could not {action}: {error}: look at the disk of this executor (space, "
        "permissions, health) and at the log of this server"
    )


@contextmanager
def reading_files(directory: Path) -> Iterator[None]:
    """Translate what the files of a cut raise that are not whole."""
    try:
        yield
    except CorruptDataError:
        raise
    except Exception as error:
        raise CorruptDataError(
            f"the RocksDB files under {directory} are damaged or not all there: {error}"
        ) from error


@contextmanager
def writing_files(directory: Path) -> Iterator[None]:
    """Translate what a disk raises that takes no files."""
    try:
        yield
    except FileNotFoundError as error:
        raise CorruptDataError(f"{error.filename} is not there (any more)") from error
    except OSError as error:
        raise CheckpointError(
            f"could not write {error.filename or directory}: {error.strerror}: look at the space "
            f"and the permissions of {directory}"
        ) from error
