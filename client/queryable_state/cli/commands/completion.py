"""Command `queryable-state completion`: prints a shell completion script."""

from __future__ import annotations

import argparse
from functools import partial

from queryable_state.cli.completed_names import print_names
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.packaging.extras import require_extra

_SHELLS = ("bash", "zsh", "tcsh")


def add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], whole: argparse.ArgumentParser
) -> None:
    """Adds the command's arguments; `whole` is the parser to complete."""
    parser = commands.add_parser(
        "completion",
        help="print a script that completes this command",
        description="Prints a shell completion script. Use it with "
        'eval "$(queryable-state completion bash)", or save it where the shell loads completions. '
        "bash and zsh complete the names of jobs and states, too, if a server answers in a second.",
    )
    parser.add_argument("shell", choices=_SHELLS)
    # The script runs the command again with these for the names of jobs and states.
    parser.add_argument("--names", choices=("jobs", "states"), help=argparse.SUPPRESS)
    parser.add_argument("--line", default="", help=argparse.SUPPRESS)
    parser.set_defaults(run=partial(_run, whole))


def _run(whole: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    if options.names is not None:
        print_names(options.names, options.line, whole)
        return 0
    try:
        require_extra("cli", "completion")
    except ModuleNotFoundError as missing:
        raise InvalidRequestError(str(missing)) from None
    import shtab

    print(shtab.complete(whole, shell=options.shell))
    return 0
