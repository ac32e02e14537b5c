"""Arguments shared by the query commands, and their conversion for the client."""

from __future__ import annotations

import asyncio
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from queryable_state.cli.completed_names import complete
from queryable_state.cli.timeout_argument import add_timeout, seconds_of
from queryable_state.wire.addresses import parse_addresses
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.json_text import key_from_json, key_json_of
from queryable_state.wire.keys.time_window import TimeWindow
from queryable_state.wire.schema.type_model import TypeInfo
from queryable_state.wire.security.tls_arguments import add_tls, tls_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable, Iterable

    from queryable_state.client import Consistency, ReadOptions


SERVER_VARIABLE = "QUERYABLE_STATE_SERVER"
TOKEN_VARIABLE = "QUERYABLE_STATE_TOKEN"

_DEFAULT_SERVER = "localhost:9069"
_DEFAULT_PORT = 9069
_TIMEOUT_S = 5.0

KEYS_EPILOG = (
    "Keys are JSON of the state's key type: 7, '[\"AA\", 3]'. Strings, dates, times and binaries "
    "need no quotes: sensor_1, 2013-01-31. After -- a key may begin with a dash."
)


def key_of(word: str, key_type: TypeInfo) -> Any:
    """Parses a key from JSON; for types whose JSON is a string, the quotes may be omitted.

    A quoted word is always parsed as JSON. Raises `InvalidRequestError` for invalid JSON and
    `KeyTypeError` for a value of another type.
    """
    return key_from_json(key_json_of(word, key_type), key_type)


def prefix_of(word: str, key_type: TypeInfo) -> Any:
    """Parses a key prefix: the start of a string, or an array of the first fields."""
    if key_type.fields:
        try:
            given = json.loads(word)
        except ValueError:
            given = None
        if isinstance(given, list) and len(given) < len(key_type.fields):
            first = key_type.fields[: len(given)]
            return key_from_json(word, TypeInfo(key_type.kind, fields=first)) if first else ()
    return key_of(word, key_type)


def keys_of_lines(lines: Iterable[str], key_type: TypeInfo) -> list[Any]:
    """Parses one key per line; skips empty lines."""
    return [key_of(word, key_type) for line in lines if (word := line.rstrip("\r\n"))]


def add_operation(
    parser: argparse.ArgumentParser, operation: Callable[..., Awaitable[int]], *, of_state: bool
) -> None:
    """Makes the command run `operation`; adds `--server`, `--timeout` and `--json`.

    `operation` is called with the options, a client and, if `of_state`, the `ShownState`. It
    returns the exit code.
    """
    parser.set_defaults(run=_run, operation=operation, of_state=of_state)
    parser.add_argument(
        "--server",
        action="append",
        metavar="HOST[:PORT]",
        help="any proxy or state server of the job; several with commas between, or the option "
        f"several times: the first one that is reached is asked (default: {SERVER_VARIABLE}, else "
        f"{_DEFAULT_SERVER})",
    )
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help=f"file with the token of a caller (default: the token in {TOKEN_VARIABLE}, else none)",
    )
    add_timeout(parser, _TIMEOUT_S)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_tls(parser)


def add_state(parser: argparse.ArgumentParser) -> None:
    """Adds the state to query, and `--job`."""
    complete(parser.add_argument("state", metavar="STATE", help="queryable name"), "states")
    add_job(parser, "id or name; needed only if several jobs have the state")


def add_job(parser: argparse.ArgumentParser, meaning: str) -> None:
    """Adds `--job`."""
    complete(parser.add_argument("--job", metavar="JOB", help=meaning), "jobs")


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Adds the options for consistency, window and completeness."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--uncommitted",
        action="store_true",
        help="read sealed batches too, which are not committed yet and may be replaced",
    )
    which.add_argument(
        "--at-least", type=int, metavar="BATCH", help="wait until this batch is committed"
    )
    which.add_argument(
        "--within",
        type=float,
        metavar="SECONDS",
        help="wait until the newest commit is at most this many seconds old",
    )
    parser.add_argument(
        "--window",
        metavar="START/END",
        help="read this window: ISO times (default UTC) or milliseconds since 1970",
    )
    parser.add_argument(
        "--allow-incomplete", action="store_true", help="accept state whose older part was lost"
    )


def _run(options: argparse.Namespace) -> int:
    return asyncio.run(answer(options))


async def answer(options: argparse.Namespace) -> int:
    """Runs the command's operation with a client for `--server`; returns the exit code."""
    # Parsing arguments must not load the client and gRPC.
    from queryable_state.cli.shown_state import ShownState
    from queryable_state.client import QueryableStateClient

    async with QueryableStateClient(
        addresses=servers_of(options),
        timeout_s=seconds_of(options),
        tls=tls_of(options) or False,
        token=token_of(options),
    ) as client:
        exit_code: int
        if options.of_state:
            # Its types are needed to parse keys and to format values.
            state = await client.describe_state(options.job, options.state)
            exit_code = await options.operation(options, client, ShownState(state))
        else:
            exit_code = await options.operation(options, client)
        return exit_code


def servers_of(options: argparse.Namespace) -> list[str]:
    """HOST:PORT of each `--server`, else of the environment variable, else the default."""
    given = options.server or os.environ.get(SERVER_VARIABLE) or _DEFAULT_SERVER
    what = "--server" if options.server else SERVER_VARIABLE
    return parse_addresses(given, what, _DEFAULT_PORT)


def token_of(options: argparse.Namespace) -> str | None:
    """The token in `--token-file`, else in the environment; None if there is none."""
    if options.token_file is None:
        return os.environ.get(TOKEN_VARIABLE, "").strip() or None
    try:
        token = Path(options.token_file).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise InvalidRequestError(
            f"cannot read --token-file {options.token_file}: {problem}"
        ) from problem
    if not token:
        raise InvalidRequestError(f"--token-file {options.token_file} is empty")
    return token


def read_options(options: argparse.Namespace) -> ReadOptions:
    """The options of `add_reading` as arguments of the client."""
    return {
        "consistency": _consistency(options),
        "window": _window(options.window),
        "allow_incomplete": options.allow_incomplete,
    }


def _consistency(options: argparse.Namespace) -> Consistency:
    from queryable_state.client import Consistency

    if options.uncommitted:
        return Consistency.UNCOMMITTED
    if options.at_least is not None:
        return Consistency.at_least(options.at_least)
    if options.within is not None:
        return Consistency.within(options.within)
    return Consistency.COMMITTED


def window_json(options: argparse.Namespace) -> dict[str, Any]:
    """The field `window` of JSON output; empty without `--window`."""
    window = _window(options.window)
    return {} if window is None else {"window": window.jsonable()}


def _window(given: str | None) -> TimeWindow | None:
    if given is None:
        return None
    start, slash, end = given.partition("/")
    try:
        if not slash:
            raise ValueError("it has no slash")
        return TimeWindow(_time(start), _time(end))
    except ValueError as problem:
        raise InvalidRequestError(
            f"--window {given!r} is invalid: use START/END, as in "
            f"2013-01-31T10:00:00Z/2013-01-31T10:05:00Z: {problem}"
        ) from problem


def time_of(text: str, option: str) -> int | datetime:
    """An ISO time, or a number of milliseconds since the epoch; `option` is named in errors."""
    try:
        return _time(text)
    except ValueError as problem:
        raise InvalidRequestError(
            f"{option} {text!r} is invalid: use an ISO time, as in 2013-01-31T10:00:00Z, or "
            f"milliseconds since the epoch: {problem}"
        ) from problem


def _time(text: str) -> int | datetime:
    if text.removeprefix("-").isdecimal():
        return int(text)
    time = datetime.fromisoformat(text)
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time
