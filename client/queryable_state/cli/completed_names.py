"""Names of jobs and states for shell completion, from a server that is reachable now."""

from __future__ import annotations

import asyncio
import re
import shlex
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

TIMEOUT_S = 1.0

# The shell would split or expand other characters.
_PLAIN = re.compile(r"[\w.:@%+=/,-]+")

_PREAMBLE = {
    "bash": """\
_queryable_state_names() {{
  queryable-state completion bash --names "$1" --line "${{COMP_LINE:0:$COMP_POINT}}" 2>/dev/null |
    while IFS= read -r name; do [[ "$name" == "$2"* ]] && printf '%s\\n' "$name"; done
}}
_queryable_state_{kind}() {{ _queryable_state_names {kind} "$1"; }}
""",
    "zsh": """\
_queryable_state_{kind}() {{
  local -a names
  names=("${{(@f)$(queryable-state completion zsh --names {kind} --line "$BUFFER" 2>/dev/null)}}")
  compadd -a names
}}
""",
}


def complete(argument: argparse.Action, kind: str) -> None:
    """Completes an argument by the names of `jobs` or `states`, in the shells that can."""
    argument.complete = {  # type: ignore[attr-defined]
        **dict.fromkeys(_PREAMBLE, f"_queryable_state_{kind}"),
        "preamble": {shell: text.format(kind=kind) for shell, text in _PREAMBLE.items()},
    }


def print_names(kind: str, line: str, whole: argparse.ArgumentParser) -> None:
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
    from queryable_state.cli.arguments import servers_of, token_of
    from queryable_state.client import QueryableStateClient
    from queryable_state.wire.security.tls_arguments import tls_of

    async with (
        asyncio.timeout(TIMEOUT_S),
        QueryableStateClient(
            addresses=servers_of(options),
            timeout_s=TIMEOUT_S,
            tls=tls_of(options) or False,
            token=token_of(options),
        ) as client,
    ):
        if kind == "jobs":
            jobs = await client.list_jobs()
            return sorted({job.name or job.job_id for job in jobs})
        job: Any = getattr(options, "job", None)
        return sorted({state.state_name for state in await client.list_states(job)})
