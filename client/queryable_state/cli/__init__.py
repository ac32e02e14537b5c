"""The command `queryable-state`: a module a subcommand, each with `add_command`.

Those that ask are here; those that serve come from the server's part. Neither
imports grpc before it runs: what serves sets what gRPC reads when it is
imported, and `--help` should not take long.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from queryable_state.cli.commands import (
    completion,
    explain,
    get,
    jobs,
    mget,
    scan,
    server_commands,
    states,
)
from queryable_state.cli.exit_codes import INTERRUPTED, NOT_THERE, PIPE_CLOSED, REFUSED
from queryable_state.wire.errors import QueryableStateError, UnknownKeyOrNamespaceError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main", "parser"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; answers its exit code.

    See `exit_codes`; usage errors leave with 2 as `SystemExit`.
    """
    options = parser().parse_args(arguments)
    if sys.stdout is None:
        # Closed by who started us: what it does not want is not printed.
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - until the process ends
    try:
        exit_code: int = options.run(options)
        sys.stdout.flush()
        return exit_code
    except QueryableStateError as error:
        print(f"queryable-state: {error}", file=sys.stderr)
        return NOT_THERE if isinstance(error, UnknownKeyOrNamespaceError) else REFUSED
    except BrokenPipeError:
        # Whoever read has enough, as `head`.
        _give_up_output()
        return PIPE_CLOSED
    except OSError as problem:
        # A disk that is full, a terminal that is gone.
        _give_up_output()
        print(f"queryable-state: {problem}", file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        return INTERRUPTED


def _give_up_output() -> None:
    """Nobody takes what is still to be written; the interpreter would complain at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def parser() -> argparse.ArgumentParser:
    """The command's arguments; what is parsed has `run`, which takes it."""
    whole = argparse.ArgumentParser(
        prog="queryable-state",
        description="Asks running PySpark jobs for their keyed state, and serves it.",
    )
    commands = whole.add_subparsers(required=True, metavar="COMMAND")
    for command in (get, mget, scan, explain, states, jobs):
        command.add_command(commands)
    server_commands.add_commands(commands)
    completion.add_command(commands, whole)
    return whole
