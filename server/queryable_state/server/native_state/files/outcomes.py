"""Errors of reads of a Spark checkpoint: one class for each next step of the reader.

Damage is CorruptDataError and names the file. A version whose files the job has removed for good
is VersionGoneError. The classes here are the temporary outcomes, and a format or provider that
this version does not read.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from queryable_state.wire.errors import (
    CorruptDataError,
    InvalidRequestError,
    Reason,
    RetryLaterError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_RETRY_MS = 50
_ADVICE = "restore the file, or restart the query from a checkpoint that Spark can read"


class NotYetWrittenError(RetryLaterError):
    """Wait: the job has not written the file yet."""

    file: str = ""
    left: str = ""
    """What is there in its place; empty: unknown."""


class FileRemovedError(RetryLaterError):
    """Plan again: the job removed a file of this plan after the plan was made."""


class UnsupportedFormatError(InvalidRequestError):
    """Use a newer version of this library: it does not know the file's format or provider."""

    default_reason = Reason.UNSUPPORTED


def not_yet_written(file: str, what: str, *, left: str = "") -> NotYetWrittenError:
    """The error of a file that the job is about to write."""
    error = NotYetWrittenError(f"{file} does not exist yet: {what}", retry_after_ms=_RETRY_MS)
    error.file, error.left = file, left
    return error


@contextmanager
def of_committed(batch: int) -> Iterator[None]:
    """Turns the error of a missing file into `CorruptDataError`, in reads of a committed batch.

    Spark writes all files of a batch before `commits/N`: one that is missing then was lost.
    """
    try:
        yield
    except NotYetWrittenError as problem:
        raise lost(problem, batch) from problem


def lost(problem: NotYetWrittenError, batch: int) -> CorruptDataError:
    """The error of a file that is missing although its batch is committed."""
    left = f"; {problem.left}" if problem.left else ""
    return CorruptDataError(
        f"{problem.file or problem} is lost: batch {batch} is committed in commits/{batch}, so "
        f"it was there{left}: {_ADVICE}"
    )


def file_removed(file: str) -> FileRemovedError:
    """The error of a planned file that vanished."""
    return FileRemovedError(
        f"{file} was removed while it was needed, by the maintenance of the job: plan the restore "
        "again",
        retry_after_ms=_RETRY_MS,
    )


def damaged(file: str, what: str) -> CorruptDataError:
    """The error of a file whose bytes are not what Spark writes."""
    return CorruptDataError(f"{file} is damaged: {what}: {_ADVICE}")


def missing(file: str, what: str) -> CorruptDataError:
    """The error of a file that newer files need, and that is not there."""
    return CorruptDataError(f"{file} is lost: {what}: {_ADVICE}")


def checksum_mismatch(file: str, what: str) -> CorruptDataError:
    """The error of a file whose bytes do not have their stored checksum."""
    return CorruptDataError(
        f"{file} is damaged: {what}: {_ADVICE}", reason=Reason.CHECKSUM_MISMATCH
    )
