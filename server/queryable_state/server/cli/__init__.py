"""The command `queryable-state`: a module a subcommand, each with `add_command`."""

from __future__ import annotations

import argparse
import logging
import sys
from typing import TYPE_CHECKING

from queryable_state.server.cli import checkpoints, proxy, savepoint, serve
from queryable_state.server.cli.arguments import SECRET_VARIABLE
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["SECRET_VARIABLE", "main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; answers its exit code, which is 2 for what the caller can put right."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    try:
        exit_code: int = options.run(options)
        return exit_code
    except QueryableStateError as error:
        print(f"queryable-state: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="queryable-state", description="Serves the keyed state of PySpark jobs."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in (proxy, checkpoints, savepoint, serve):
        command.add_command(commands)
    return parser
