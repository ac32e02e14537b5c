"""Command `queryable-state`, with one module per subcommand, each with `add_command`.

Query commands are in this package; server commands come from `queryable_state.server`. Neither
imports grpc before it runs: what serves sets what gRPC reads when it is
imported, and `--help` should not take long.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from queryable_state.cli.commands import (
    completion,
    explain,
    get,
    hot_keys,
    jobs,
    mget,
    operator_state,
    scan,
    server_commands,
    states,
    status,
    top,
    watch,
    windows,
)
from queryable_state.cli.common_options import behind_command
from queryable_state.cli.exit_codes import (
    CONFIGURATION,
    INTERRUPTED,
    NOT_THERE,
    PIPE_CLOSED,
    REFUSED,
)
from queryable_state.cli.tables import message_text
from queryable_state.wire.errors import (
    InvalidRequestError,
    QueryableStateError,
    UnknownKeyOrNamespaceError,
)
from queryable_state.wire.packaging.protocol_versions import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main", "parser"]

_SERVERS = ("proxy", "serve")
_USAGE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code, see `exit_codes`.

    A usage error raises `SystemExit` with code 2, of a server's process with `CONFIGURATION`.
    """
    try:
        return _main(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        # Also while modules are loaded, which takes most of the time of a short command.
        return INTERRUPTED


def _main(words: Sequence[str]) -> int:
    # Read when a command imports gRPC, which else writes a line for each failed TLS handshake.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    serves = bool(words) and words[0] in _SERVERS
    try:
        options = parser().parse_args(behind_command(words))
    except SystemExit as ended:
        if serves and ended.code == _USAGE:
            raise SystemExit(CONFIGURATION) from None
        raise
    if sys.stdout is None:
        # The parent process closed stdout: discard the output.
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - until the process ends
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Keys and values may have characters that the terminal's encoding lacks.
            stream.reconfigure(errors="backslashreplace")
    try:
        exit_code: int = options.run(options)
        sys.stdout.flush()
        return exit_code
    except QueryableStateError as error:
        print(f"queryable-state: {message_text(str(error))}", file=sys.stderr)
        if serves and isinstance(error, InvalidRequestError):
            return CONFIGURATION
        return NOT_THERE if isinstance(error, UnknownKeyOrNamespaceError) else REFUSED
    except BrokenPipeError:
        # The reader, such as `head`, closed the pipe.
        _discard_output()
        return PIPE_CLOSED
    except OSError as problem:
        # For instance a full disk or a closed terminal.
        _discard_output()
        print(f"queryable-state: {problem}", file=sys.stderr)
        return REFUSED


def _discard_output() -> None:
    """Discards buffered output, which the interpreter would fail to write at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def parser() -> argparse.ArgumentParser:
    """The argument parser; the parsed options have `run`, a function of these options."""
    whole = argparse.ArgumentParser(
        prog="queryable-state",
        description="Queries and serves the keyed state of running PySpark jobs.",
    )
    whole.add_argument("--version", action="version", version=f"queryable-state {__version__}")
    commands = whole.add_subparsers(required=True, metavar="COMMAND")
    queries = (get, mget, scan, watch, windows, operator_state, explain)
    for command in (*queries, states, jobs, status, top, hot_keys):
        command.add_command(commands)
    server_commands.add_commands(commands)
    completion.add_command(commands, whole)
    return whole
