"""Command `queryable-state explain`: traces one lookup."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.cli.answers import error_json, error_text, info_json, info_text, print_json
from queryable_state.cli.arguments import (
    KEYS_EPILOG,
    add_operation,
    add_reading,
    add_state,
    key_of,
    read_options,
    window_json,
)
from queryable_state.cli.exit_codes import NOT_THERE, REFUSED
from queryable_state.cli.tables import cell, table, us_text, window_text
from queryable_state.wire.errors import UnknownKeyOrNamespaceError
from queryable_state.wire.located_state import NOT_HASH_PARTITIONED

if TYPE_CHECKING:
    import argparse

    from queryable_state.cli.shown_state import ShownState
    from queryable_state.client import ExplainStep, Explanation, QueryableStateClient


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command's arguments."""
    parser = commands.add_parser(
        "explain",
        help="trace a lookup: owner, hops, caches, retries, times",
        description="Looks up a key and prints the steps. Steps of the client come first; times of "
        "a server's steps start when the request arrives there. Exits with 1 if the key has no "
        "value, with 2 if the lookup failed.",
        epilog=KEYS_EPILOG,
    )
    add_state(parser)
    parser.add_argument("key", metavar="KEY")
    add_reading(parser)
    add_operation(parser, _explain, of_state=True)


async def _explain(
    options: argparse.Namespace, client: QueryableStateClient, shown: ShownState
) -> int:
    key = key_of(options.key, shown.state.key_type)
    explained = await client.explain(options.job, options.state, key, **read_options(options))
    if options.json:
        print_json({**shown.names(), **window_json(options), **_json(explained, shown)})
    else:
        print(*_lines(explained, shown), sep="\n")
    if explained.state is not None:
        return 0
    return NOT_THERE if isinstance(explained.error, UnknownKeyOrNamespaceError) else REFUSED


def _json(explained: Explanation, shown: ShownState) -> dict[str, Any]:
    state = explained.state
    return {
        "key": shown.key(explained.key),
        "value": None if state is None else shown.value(state),
        "remaining_ms": None if state is None else state.remaining_ms,
        "info": info_json(None if state is None else state.info),
        "error": error_json(explained.error),
        "state_id": explained.state_id,
        "key_group": explained.key_group,
        "asks_all_partitions": explained.asks_all_partitions,
        "subtask": explained.subtask,
        "operator_uid": explained.operator_uid,
        "owner_id": explained.owner_id,
        "owner_address": explained.owner_address,
        "placement_version": explained.placement_version,
        "hops": explained.hops,
        "connections": [
            {
                "address": connection.address,
                "server_id": connection.server_id,
                "transport": connection.transport,
                "frame_problem": connection.frame_problem,
            }
            for connection in explained.connections
        ],
        "server_us": explained.server_us,
        "total_us": explained.total_us,
        "steps": [
            {
                "name": step.name,
                "server_id": step.server_id,
                "role": step.role.name,
                "begun_us": step.begun_us,
                "took_us": step.took_us,
                "detail": step.detail,
                "cache_hit": step.cache_hit,
                "retried": step.retried,
            }
            for step in explained.steps
        ],
    }


def _lines(explained: Explanation, shown: ShownState) -> list[str]:
    lines = []
    if explained.window is not None:
        lines.append(f"window {window_text(explained.window)}")
    if explained.state is not None:
        lines += [cell(shown.value(explained.state)), info_text(explained.state.info)]
    if explained.error is not None:
        lines.append(error_text(explained.error))
    place = f"key group {explained.key_group}, subtask {explained.subtask} of operator "
    place += f"{explained.operator_uid}, placement {explained.placement_version}"
    owner = f"owner {explained.owner_id} at {explained.owner_address}"
    total = f"{us_text(explained.total_us)} in total, {us_text(explained.server_us)} of it at the "
    total += f"first server; servers involved: {explained.hops}"
    steps = table(("step", "by", "begun", "took", "detail"), [_row(s) for s in explained.steps])
    return [
        *lines,
        place,
        *([NOT_HASH_PARTITIONED] if explained.asks_all_partitions else []),
        owner if explained.owner_id else "no owner at the moment",
        *(f"connection: {connection}" for connection in explained.connections),
        "",
        *steps,
        "",
        total,
    ]


def _row(step: ExplainStep) -> tuple[str, ...]:
    by = f"{step.role.name.lower()} {step.server_id}" if step.server_id else "client"
    marks = (("from cache", step.cache_hit), ("retried", step.retried))
    details = [*(mark for mark, is_set in marks if is_set), *([step.detail] if step.detail else [])]
    return (step.name, by, us_text(step.begun_us), us_text(step.took_us), "; ".join(details))
