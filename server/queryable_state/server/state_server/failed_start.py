"""Errors for state servers that do not start: the end of the log, and what to do."""

from __future__ import annotations

import errno
import re
import signal
import sys
from typing import TYPE_CHECKING

from queryable_state.server.state_server.base.server_directory import (
    RESTART_MAY_HELP,
    UNUSABLE_SETTINGS,
    ServerDirectory,
)
from queryable_state.wire.errors import InvalidRequestError, RetryLaterError

if TYPE_CHECKING:
    from queryable_state.wire.errors import QueryableStateError

_LOG_TAIL_BYTES = 2000
_RETRY_AFTER_MS = 500
# A package that was built for another processor or C library ends the process by one of these.
_CRASHES = frozenset({signal.SIGILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS})
_IMPORT_FAILURE = re.compile(r"\b(ImportError|ModuleNotFoundError|No module named)\b")
# A state server that starts again would fail again with these.
_UNUSABLE_PATH = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP}
)

PACKAGES_ADVICE = (
    "install spark-queryable-state[streaming] for this Python on every executor, or ship a packed "
    "environment with --archives (deploy/spark-submit/README.md). --py-files carries pure Python "
    "only, never the packages with compiled modules: grpcio, protobuf, xxhash, rocksdict, psutil, "
    "uvloop, pyarrow"
)


def ended_error(held: ServerDirectory, exit_code: int) -> QueryableStateError:
    """The error for a server that ended while it started.

    `RetryLaterError` if another start may succeed, else `InvalidRequestError`.
    """
    if exit_code == UNUSABLE_SETTINGS:
        return InvalidRequestError(
            f"the state server of {held.path} cannot run with the settings of this "
            f"application; its log ends with:\n{_log_tail(held, lines=1)}"
        )
    tail = _log_tail(held)
    # 0 is an orderly stop; a negative code is a signal, such as the kill of a memory limit.
    if exit_code in (0, RESTART_MAY_HELP) or (exit_code < 0 and -exit_code not in _CRASHES):
        return RetryLaterError(
            f"the state server of {held.path} ended while it started (exit code {exit_code}); its "
            f"log ends with:\n{tail}",
            retry_after_ms=_RETRY_AFTER_MS,
        )
    if _IMPORT_FAILURE.search(tail):
        advice = f"A package is missing or does not load: {PACKAGES_ADVICE}"
    else:
        advice = (
            f"Run `{sys.executable} -m queryable_state.server.state_server </dev/null` on that "
            "machine as the executor's user: it should only complain about its settings"
        )
    return InvalidRequestError(
        f"the state server of {held.path} cannot start with {sys.executable} (exit code "
        f"{exit_code}). {advice}. Its log ends with:\n{tail}"
    )


def late_error(held: ServerDirectory, timeout_s: float) -> RetryLaterError:
    """The error for a server that still starts after `timeout_s`."""
    return RetryLaterError(
        f"the state server of {held.path} is not up after {timeout_s:g} s; its log ends with:\n"
        f"{_log_tail(held)}",
        retry_after_ms=_RETRY_AFTER_MS,
    )


def unusable_path(held: ServerDirectory, problem: OSError) -> QueryableStateError:
    """The error for a directory or a Python that cannot be used.

    `RetryLaterError` if that may change by itself, as with a full disk.
    """
    message = (
        f"the state server of {held.path} cannot start: {problem}. Set "
        "spark.queryable_state.directory to a folder that the executor's user may write, "
        "on every machine (default: the executor's first folder of spark.local.dir)"
    )
    if is_permanent(problem) or problem.filename == sys.executable:
        return InvalidRequestError(message)
    return RetryLaterError(message, retry_after_ms=_RETRY_AFTER_MS)


def is_permanent(problem: OSError) -> bool:
    """True if the same access would fail again: permissions, a read-only disk, a wrong path."""
    return problem.errno in _UNUSABLE_PATH


def _log_tail(held: ServerDirectory, *, lines: int = 0) -> str:
    """Returns the last lines of the server's log and output; `lines` 0: all that was kept."""
    try:
        tail = held.log.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace")
    except OSError as problem:
        return f"(no log: {problem})"
    return "\n".join(tail.splitlines()[-lines:])
