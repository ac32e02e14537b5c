"""Child processes that run a module of this package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_TAIL_BYTES = 2000


def start_module(
    module: str,
    *arguments: str,
    log: IO[str],
    given: str = "",
    piped: bool = True,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> subprocess.Popen[str]:
    """Starts `python -m MODULE ARGUMENTS` in a session of its own; raises OSError if it cannot.

    `given` is the child's standard input: the way for secrets. Its standard error goes to `log`;
    its standard output is piped, or goes there too. `environment` is added to this process's.
    `folder`: its working directory; None: this process's.
    """
    # It finds this package where this process did, also in archives that Spark ships: entries of
    # `sys.path` may be relative to a folder that is not the child's.
    search_path = os.pathsep.join(str(Path(path).absolute()) for path in sys.path if path)
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE if piped else log,
        stderr=log,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": search_path, **(environment or {})},
        start_new_session=True,
        text=True,
    )
    assert child.stdin is not None
    try:
        with child.stdin as stdin:
            stdin.write(given)
    except BrokenPipeError:
        # It ended before it read its input; its exit code says so.
        pass
    return child


def tail_of(log: Path) -> str:
    """The last lines of a child process's log, for error messages."""
    try:
        return log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace").strip()
    except OSError as problem:
        return f"(no log: {problem})"
