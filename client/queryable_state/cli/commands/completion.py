"""Command `queryable-state completion`: prints a shell completion script."""

from __future__ import annotations

import argparse
import asyncio
import re
import shlex
from functools import partial
from typing import TYPE_CHECKING, Any

from queryable_state.cli.arguments import servers_of, token_of
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.packaging.extras import require_extra
from queryable_state.wire.security.tls_arguments import tls_of

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHELLS = ("bash", "zsh", "tcsh")
_TIMEOUT_S = 1.0

# The shell would split or expand other characters.
_PLAIN = re.compile(r"[\w.:@%+=/,-]+")


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
        _print_names(options.names, options.line, whole)
        return 0
    try:
        require_extra("cli", "completion")
    except ModuleNotFoundError as missing:
        raise InvalidRequestError(str(missing)) from None
    import shtab

    print(shtab.complete(whole, shell=options.shell))
    return 0


def _print_names(kind: str, line: str, whole: argparse.ArgumentParser) -> None:
    """Prints the names that complete a command line, one a line; none if that takes long or fails.

    The server, the token and TLS are those that the line names, else those of the environment.
    """
    try:
        names = asyncio.run(_names(kind, _options(line, whole)))
    except Exception:  # noqa: BLE001 - a shell shows no errors while a line is typed
        return
    print(*(name for name in names if _PLAIN.fullmatch(name)), sep="\n")


def _options(line: str, whole: argparse.ArgumentParser) -> argparse.Namespace:
    """The options of a line that is not complete: those that reach a server, and the job."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    words: list[str] = []
    try:
        words.extend(lexer)
    except ValueError:
        # A quote is still open: the words before it count.
        pass
    reached = whole.parse_args(["jobs"])
    for position, word in enumerate(words):
        name, equals, value = word.partition("=")
        if not equals and position + 1 < len(words):
            value = words[position + 1]
        _set(reached, name, value)
    if len(words) > 2 and words[1] in ("hotkeys", "top"):
        reached.job = words[2]
    return reached


def _set(reached: argparse.Namespace, name: str, value: str) -> None:
    field = name.removeprefix("--").replace("-", "_")
    if name == "--server":
        reached.server = [*(reached.server or ()), value]
    elif name == "--job" or (name.startswith(("--tls", "--token")) and hasattr(reached, field)):
        setattr(reached, field, value)


async def _names(kind: str, options: argparse.Namespace) -> Sequence[str]:
    from queryable_state.client import QueryableStateClient

    async with (
        asyncio.timeout(_TIMEOUT_S),
        QueryableStateClient(
            addresses=servers_of(options),
            timeout_s=_TIMEOUT_S,
            tls=tls_of(options) or False,
            token=token_of(options),
        ) as client,
    ):
        if kind == "jobs":
            jobs = await client.list_jobs()
            return sorted({job.name or job.job_id for job in jobs})
        job: Any = getattr(options, "job", None)
        return sorted({state.state_name for state in await client.list_states(job)})
