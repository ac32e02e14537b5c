"""Translation of file system errors into errors of this library."""

from __future__ import annotations

import errno
import getpass
from contextlib import contextmanager
from typing import TYPE_CHECKING

from queryable_state.server.checkpoint.file_systems.storage import MissingFileError
from queryable_state.wire.errors import (
    CheckpointError,
    QueryableStateError,
    Reason,
    RetryLaterError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_RETRY_MS = 1000
_CHAIN = 8

_FULL = "no space is left: free some, or choose another directory"
_TOO_LARGE = "the file is larger than this process or file system allows (ulimit -f): allow more"

_ADVICE = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: _TOO_LARGE,
    errno.EROFS: "it is mounted read-only: choose a directory that can be written",
    errno.ENOTDIR: "a part of the path is a file, not a folder: choose another directory",
    errno.EISDIR: "it is a folder, not a file: choose another directory",
    errno.ENAMETOOLONG: "the path is too long: choose a shorter directory, job name or uid",
    errno.ELOOP: "its symbolic links form a loop: choose another directory",
}
_READING = frozenset({"read", "list", "find", "get the size of", "get the time of"})
_WRITING = frozenset({"write", "create", "remove", "fill", "make"})
# Only a write fails so: a download writes a local copy of what it reads.
_OF_WRITES = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
_TEMPORARY = frozenset(
    {
        errno.EAGAIN,
        errno.EBUSY,
        errno.EINTR,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ESTALE,
        errno.ETIMEDOUT,
        errno.EREMOTEIO,
    }
)
# Classes by name, because botocore and aiohttp need not be installed.
_NO_CREDENTIALS = frozenset(
    {"NoCredentialsError", "PartialCredentialsError", "TokenRetrievalError"}
)
_TEMPORARY_CLASSES = frozenset(
    {
        "ClientConnectionError",
        "ClientOSError",
        "ConnectTimeoutError",
        "ConnectionClosedError",
        "EndpointConnectionError",
        "FSTimeoutError",
        "HTTPClientError",
        "IncompleteReadError",
        "ReadTimeoutError",
        "ServerDisconnectedError",
    }
)


@contextmanager
def translating(path: str, action: str) -> Iterator[None]:
    """Translates errors of the block; `action` is the attempted call, such as "write"."""
    try:
        yield
    except QueryableStateError:
        raise
    except Exception as problem:
        # File systems raise exceptions of any class.
        raise translated(problem, path, action) from problem


def translated(problem: Exception, path: str, action: str) -> QueryableStateError:
    """The error of this library for one failed access; a refused write has a reason of its own."""
    code = _service_code(problem)
    number = problem.errno if isinstance(problem, OSError) else None
    is_write = action in _WRITING or number in _OF_WRITES
    reason = Reason.STORAGE_WRITE_FAILED if is_write else Reason.CHECKPOINT_FAILED
    what = f"cannot {action} {path}"
    if code == "NoSuchBucket":
        return CheckpointError(
            f"{what}: there is no such bucket: create it, or correct the URI", reason=reason
        )
    if isinstance(problem, FileNotFoundError):
        return MissingFileError(f"{what}: there is no such file")
    if isinstance(problem, PermissionError):
        needed = "read" if action in _READING else "read and write"
        return CheckpointError(
            f"{what}: permission denied ({_text(problem)}) to user {_user()}: allow it to {needed} "
            "there, use other credentials, or choose another directory",
            reason=reason,
        )
    name = _known_class(problem, _NO_CREDENTIALS)
    if name:
        return CheckpointError(
            f"{what}: there are no credentials ({_text(problem)}): set them in the storage "
            "options, the environment, or the machine's role",
            reason=reason,
        )
    if number in _ADVICE:
        return CheckpointError(f"{what}: {_ADVICE[number]} ({_text(problem)})", reason=reason)
    if (
        number in _TEMPORARY
        or isinstance(problem, (TimeoutError, ConnectionError))
        or _known_class(problem, _TEMPORARY_CLASSES)
    ):
        return RetryLaterError(
            f"{what} at the moment ({_text(problem)}): check the file system and the network if a "
            "retry fails, too",
            retry_after_ms=_RETRY_MS,
        )
    return CheckpointError(
        f"{what}: {_text(problem)}: check the file system, its options and the URI", reason=reason
    )


def _service_code(problem: BaseException) -> str:
    """The error code of an S3 service from the chain of causes; empty if there is none."""
    for each in _causes(problem):
        response = getattr(each, "response", None)
        if isinstance(response, dict):
            return str(response.get("Error", {}).get("Code", ""))
    return ""


def _known_class(problem: BaseException, names: frozenset[str]) -> bool:
    return any(cls.__name__ in names for each in _causes(problem) for cls in type(each).__mro__)


def _causes(problem: BaseException) -> Iterator[BaseException]:
    each: BaseException | None = problem
    for _ in range(_CHAIN):
        if each is None:
            return
        yield each
        each = each.__cause__


def _text(problem: BaseException) -> str:
    text = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
    return f"{type(problem).__name__}: {text}" if text else type(problem).__name__


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        # The user id of a process may have no name.
        return "of this process"
