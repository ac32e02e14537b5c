"""Command `queryable-state hotkeys`: lists the keys that are touched most often."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

from queryable_state.cli.answers import error_json, error_text, print_json
from queryable_state.cli.arguments import add_operation
from queryable_state.cli.completed_names import complete
from queryable_state.cli.exit_codes import NOT_THERE
from queryable_state.cli.tables import cell, ms_text, table

if TYPE_CHECKING:
    import argparse

    from queryable_state.client import HotKey, HotKeys, KeyTouches, QueryableStateClient

HEAD = ("touched by", "state", "key", "share", "count")


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command's arguments."""
    parser = commands.add_parser(
        "hotkeys",
        help="list the keys that queries and tasks touch most often",
        description="Lists the keys that queries asked for, and of which tasks processed rows, "
        "most often in the last minute. It exits with 1 if an owner did not answer.",
    )
    job = parser.add_argument(
        "job", nargs="?", metavar="JOB", help="id or name (default: the only job that runs)"
    )
    complete(job, "jobs")
    complete(
        parser.add_argument("state", metavar="STATE", nargs="?", help="only this state"), "states"
    )
    parser.add_argument(
        "--limit",
        type=int,
        default=10,
        metavar="N",
        help="keys of each state and side (default: %(default)s, at most 1000)",
    )
    add_operation(parser, _hot_keys, of_state=False)


async def _hot_keys(options: argparse.Namespace, client: QueryableStateClient) -> int:
    job = options.job or (await client.describe_job()).info.job_id
    found = await client.hot_keys(job, options.state, limit=options.limit)
    if options.json:
        print_json(hot_keys_json(found))
    else:
        print(*table(HEAD, hot_key_rows(found)), "", *_notes(found), sep="\n")
    return 0 if found.complete else NOT_THERE


def hot_keys_json(found: HotKeys) -> dict[str, Any]:
    """Hot keys as JSON fields."""
    return {
        "window_ms": found.window_ms,
        "complete": found.complete,
        "errors": list(map(error_json, found.errors)),
        "keys": [
            {
                "state": key.state_name,
                "side": key.side.name,
                "key": json.loads(key.key_json) if key.key_json else None,
                "count": key.count,
                "error": key.error,
                "share": key.share,
            }
            for key in found.keys
        ],
        "totals": [dataclasses.asdict(total) | {"side": total.side.name} for total in found.totals],
    }


def hot_key_rows(found: HotKeys) -> list[list[str]]:
    """Rows for `HEAD`, the largest shares first; the states of an operator share its rows."""
    totals = {(total.state_name, total.side): total for total in found.totals}
    rows: dict[tuple[str, bytes], list[HotKey]] = {}
    for key in found.keys:
        total = totals[key.state_name, key.side]
        rows.setdefault((_source(total), key.encoded_key), []).append(key)
    ordered = sorted(rows.values(), key=lambda keys: -keys[0].share)
    return [
        [
            "queries" if keys[0].side.name == "READ" else "tasks",
            ", ".join(key.state_name for key in keys),
            cell(json.loads(keys[0].key_json)) if keys[0].key_json else keys[0].encoded_key.hex(),
            _share_text(keys[0], totals[keys[0].state_name, keys[0].side]),
            f"{keys[0].count:,}",
        ]
        for keys in ordered
    ]


def _source(total: KeyTouches) -> str:
    """Where the touches come from: queries of one state, or the rows of one operator."""
    return f"state {total.state_name}" if total.side.name == "READ" else total.operator_uid


def _share_text(key: HotKey, total: KeyTouches) -> str:
    """A share with its error: `12.3 % +- 0.4`."""
    text = f"{100 * key.share:.1f} %"
    error = 100 * key.error / max(1, total.total)
    return f"{text} +- {error:.1f}" if error >= 0.05 else text


def _notes(found: HotKeys) -> list[str]:
    seen: dict[tuple[str, str], int] = {
        (total.side.name, _source(total)): total.total for total in found.totals
    }
    asked = sum(total for (side, _), total in seen.items() if side == "READ")
    processed = sum(total for (side, _), total in seen.items() if side == "WRITE")
    window = ms_text(found.window_ms)
    notes = [f"{asked:,} keys asked and {processed:,} rows processed in the last {window}"]
    if any(total.is_off for total in found.totals):
        notes.append("keys are not counted: the setting spark.queryable_state.hot_keys is false")
    return [*notes, *map(error_text, found.errors)]
