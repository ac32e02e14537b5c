"""Command `queryable-state windows`: reads the windows of one key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.cli.answers import info_json, info_text, print_json
from queryable_state.cli.arguments import (
    KEYS_EPILOG,
    add_operation,
    add_reading,
    add_state,
    key_of,
    read_options,
    time_of,
)
from queryable_state.cli.exit_codes import NOT_THERE
from queryable_state.cli.tables import table, window_text

if TYPE_CHECKING:
    import argparse

    from queryable_state.cli.shown_state import ShownState
    from queryable_state.client import KeyWindows, QueryableStateClient


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command's arguments."""
    parser = commands.add_parser(
        "windows",
        help="read the windows of one key",
        description="Prints the windows of a key that have a value, with their values, by start. "
        "Exits with 1 if there is none. `get` and `mget` with --window read one window.",
        epilog=KEYS_EPILOG,
    )
    add_state(parser)
    parser.add_argument("key", metavar="KEY")
    parser.add_argument(
        "--from",
        dest="start",
        metavar="TIME",
        help="only windows that start at this time or later: ISO time or milliseconds since 1970",
    )
    parser.add_argument(
        "--to", dest="end", metavar="TIME", help="only windows that start before this time"
    )
    parser.add_argument(
        "--newest", type=int, metavar="COUNT", help="at most this many, those that start last"
    )
    add_reading(parser)
    add_operation(parser, _windows, of_state=True)


async def _windows(
    options: argparse.Namespace, client: QueryableStateClient, shown: ShownState
) -> int:
    key = key_of(options.key, shown.state.key_type)
    found = await client.get_windows(
        options.job,
        options.state,
        key,
        None if options.start is None else time_of(options.start, "--from"),
        None if options.end is None else time_of(options.end, "--to"),
        newest=options.newest,
        **read_options(options),
    )
    if options.json:
        print_json(
            {**shown.names(), "key": shown.key(key), "windows": _json(found, shown)}
            | {"info": info_json(found.info)}
        )
    else:
        rows = [[window_text(window), *shown.value_cells(found[window])] for window in found]
        count = f"{len(found)} windows, {info_text(found.info)}"
        print(*table(["window", *shown.value_head], rows), "", count, sep="\n")
    return 0 if found else NOT_THERE


def _json(found: KeyWindows, shown: ShownState) -> list[dict[str, Any]]:
    return [
        {
            "window": window.jsonable(),
            "value": shown.value(state),
            "remaining_ms": state.remaining_ms,
        }
        for window, state in found.items()
    ]
