"""Command `queryable-state watch`: prints the committed changes of a state as they happen."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from queryable_state.cli.answers import batch_text
from queryable_state.cli.arguments import KEYS_EPILOG, add_operation, add_state, key_of, prefix_of
from queryable_state.cli.tables import GrowingTable, cell, window_text
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    import argparse

    from queryable_state.cli.shown_state import ShownState
    from queryable_state.client import Change, QueryableStateClient


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command's arguments."""
    parser = commands.add_parser(
        "watch",
        help="print the changes of keys, a prefix or a whole state as batches are committed",
        description="Prints every committed change once, in the order of batches, until it is "
        "interrupted. With --json one JSON object a line. A GAP names batches whose "
        "changes the servers do not have any more.",
        epilog=KEYS_EPILOG,
    )
    add_state(parser)
    keys = parser.add_argument(
        "keys",
        metavar="KEY",
        nargs="+",
        default=[],
        help="only these keys (default: every key of the state)",
    )
    # With nargs="*" argparse would consume an empty list if an option follows STATE.
    keys.required = False
    parser.add_argument(
        "--prefix",
        metavar="KEY",
        help="keys with this prefix: the start of a string or the first fields of a tuple",
    )
    parser.add_argument(
        "--after-batch",
        type=int,
        metavar="BATCH",
        help="begin with the changes of the next batch, as far as the servers still have them; -1: "
        "with the first batch (default: with the next commit)",
    )
    parser.add_argument(
        "--limit", type=int, metavar="COUNT", help="end after this many changes (default: never)"
    )
    add_operation(parser, _watch, of_state=True)


async def _watch(
    options: argparse.Namespace, client: QueryableStateClient, shown: ShownState
) -> int:
    key_type = shown.state.key_type
    selected: dict[str, Any] = {}
    if options.keys:
        selected["keys"] = [key_of(word, key_type) for word in options.keys]
    if options.prefix is not None:
        selected["prefix"] = prefix_of(options.prefix, key_type)
    if options.limit is not None and options.limit < 1:
        raise InvalidRequestError(f"--limit {options.limit} is invalid: give a number from 1")
    lines = GrowingTable(["batch", "change", "key", "old", "new"])
    watch = client.watch(options.job, options.state, **selected, after_batch=options.after_batch)
    left = options.limit
    async with watch:
        if not options.json:
            print(*lines.add([]), sep="\n", flush=True)
        async for change in watch:
            if options.json:
                print(json.dumps(change_json(change, shown), allow_nan=False), flush=True)
            else:
                print(*lines.add([_cells(change, shown)]), sep="\n", flush=True)
            left = None if left is None else left - 1
            if left == 0:
                break
    return 0


def change_json(change: Change, shown: ShownState) -> dict[str, Any]:
    """A change as JSON fields."""
    entry: dict[str, Any] = {"kind": change.kind.name, "batch": change.batch}
    if change.first_missed_batch is not None:
        return {**entry, "first_missed_batch": change.first_missed_batch}
    entry |= {"commit_time_ms": change.commit_time_ms, "key": shown.key(change.key)}
    if change.window is not None:
        entry["window"] = change.window.jsonable()
    if change.map_key is not None:
        entry["map_key"] = shown.map_key(change.map_key)
    entry["new"] = shown.changed_value(change.new, of_list=change.kind.name == "APPEND")
    entry["old"] = shown.changed_value(change.old)
    entry["is_old_known"] = change.is_old_known
    return entry


def _cells(change: Change, shown: ShownState) -> list[str]:
    shown_change = change_json(change, shown)
    if change.first_missed_batch is not None:
        missed = f"changes of {batch_text(change.first_missed_batch)} and later are missing"
        return [str(change.batch), "GAP", missed, "", ""]
    key = cell(shown_change["key"])
    if change.window is not None:
        key += f" {window_text(change.window)}"
    if change.map_key is not None:
        key += f" [{cell(shown_change['map_key'])}]"
    old = cell(shown_change["old"]) if change.is_old_known else "?"
    is_put = change.kind.name in ("PUT", "APPEND")
    return [
        str(change.batch),
        change.kind.name,
        key,
        "" if change.old is None and change.is_old_known else old,
        cell(shown_change["new"]) if is_put else "",
    ]
