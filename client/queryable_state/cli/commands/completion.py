"""Command `queryable-state completion`: prints a shell completion script."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.packaging.extras import require_extra

if TYPE_CHECKING:
    import argparse

_SHELLS = ("bash", "zsh", "tcsh")


def add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], whole: argparse.ArgumentParser
) -> None:
    """Adds the command's arguments; `whole` is the parser to complete."""
    parser = commands.add_parser(
        "completion",
        help="print a script that completes this command",
        description="Prints a shell completion script. Use it with "
        'eval "$(queryable-state completion bash)", or save it where the shell loads completions.',
    )
    parser.add_argument("shell", choices=_SHELLS)
    parser.set_defaults(run=partial(_run, whole))


def _run(whole: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    try:
        require_extra("cli", "completion")
    except ModuleNotFoundError as missing:
        raise InvalidRequestError(str(missing)) from None
    import shtab

    print(shtab.complete(whole, shell=options.shell))
    return 0
