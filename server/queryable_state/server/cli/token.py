"""`queryable-state token`: make a token and its line for the access file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.security.access.grants import ANONYMOUS
from queryable_state.server.security.access.tokens import digest_of, new_token
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    import argparse


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command's arguments."""
    parser = commands.add_parser(
        "token",
        help="make a token for a caller",
        description="Makes a random token and prints it, with its line for the table `tokens` of "
        "the access file. The token is stored nowhere: give it to the caller, and the line, which "
        "has only its SHA-256, to the servers.",
    )
    parser.add_argument("name", metavar="NAME", help="name of the caller in grants and logs")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    name: str = options.name
    if not name or name == ANONYMOUS or not name.isprintable():
        raise InvalidRequestError(
            f"{name!r} cannot name a token: use a text other than {ANONYMOUS!r}, as in dashboard"
        )
    token = new_token()
    print(token)
    print("\n# in the access file:\n[tokens]")
    print(f'{_key(name)} = "{digest_of(token)}"')
    return 0


def _key(name: str) -> str:
    """The name as a key of TOML."""
    if name.isascii() and all(each.isalnum() or each in "-_" for each in name):
        return name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
