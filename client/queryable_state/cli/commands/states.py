"""Command `queryable-state states`: lists queryable states and counts their keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.cli.answers import error_json, error_text, info_json, print_json
from queryable_state.cli.arguments import add_job, add_operation
from queryable_state.cli.completed_names import complete
from queryable_state.cli.exit_codes import NOT_THERE
from queryable_state.cli.tables import bytes_text, estimate_text, table
from queryable_state.wire.located_state import NOT_HASH_PARTITIONED

if TYPE_CHECKING:
    import argparse

    from queryable_state.client import QueryableStateClient, StateInfo, StateMeasure


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command's arguments."""
    parser = commands.add_parser(
        "states",
        help="list the queryable states",
        description="Lists the queryable states by job and name. With --measure it exits with 1 if "
        "some key groups did not answer.",
    )
    complete(
        parser.add_argument("state", metavar="STATE", nargs="?", help="list only this state"),
        "states",
    )
    add_job(parser, "list only states of this job, by id or name")
    parser.add_argument(
        "--measure",
        action="store_true",
        help="count keys, records (values, map entries, list chunks) and bytes; large states are "
        "estimated, with the error of that",
    )
    add_operation(parser, _states, of_state=False)


async def _states(options: argparse.Namespace, client: QueryableStateClient) -> int:
    states = await client.list_states(options.job)
    if options.state is not None:
        states = [state for state in states if state.state_name == options.state]
        if not states:
            # Raises an error that lists the existing names.
            states = [await client.describe_state(options.job, options.state)]
    measured: list[StateMeasure | None] = [
        await client.measure(state.job_id, state.state_name) if options.measure else None
        for state in states
    ]
    pairs = list(zip(states, measured, strict=True))
    if options.json:
        print_json({"states": [_json(state, measure) for state, measure in pairs]})
    else:
        head = ["job", "state", "kind", "key", "value"]
        head += ["keys", "records", "bytes", "complete"] if options.measure else []
        lines = table(head, [_row(state, measure) for state, measure in pairs])
        print(*lines, *_asking_all(states), *_failures(pairs), sep="\n")
    return 0 if all(m is None or m.complete for m in measured) else NOT_THERE


def _json(state: StateInfo, measure: StateMeasure | None) -> dict[str, Any]:
    described: dict[str, Any] = {
        "job": state.job_name,
        "job_id": state.job_id,
        "state": state.state_name,
        "kind": state.kind,
        "key_type": state.key_type.simple_string(),
        "value_type": None if state.value_type is None else state.value_type.simple_string(),
        "windowed": state.is_windowed,
        "map_key_type": None if state.map_key_type is None else state.map_key_type.simple_string(),
        "ttl_ms": state.ttl_ms or None,
        "ttl_per_value": state.ttl_per_value,
        "asks_all_partitions": state.asks_all_partitions,
    }
    if measure is not None:
        described |= {
            "keys": measure.keys,
            "records": measure.records,
            "bytes": measure.bytes,
            "exact": measure.exact,
            "keys_error": measure.keys_error,
            "records_error": measure.records_error,
            "bytes_error": measure.bytes_error,
            "complete": measure.complete,
            "parts": [
                {
                    "first_key_group": part.first_key_group,
                    "last_key_group": part.last_key_group,
                    "subtask": part.subtask,
                    "keys": part.keys,
                    "records": part.records,
                    "bytes": part.bytes,
                    "exact": part.exact,
                    "info": info_json(part.info),
                    "error": error_json(part.error),
                }
                for part in measure.parts
            ],
        }
    return described


def _row(state: StateInfo, measure: StateMeasure | None) -> list[str]:
    value = "" if state.value_type is None else state.value_type.simple_string()
    if state.map_key_type is not None:
        value = f"{state.map_key_type} -> {value}"
    key = state.key_type.simple_string()
    if state.is_windowed:
        key += ", window"
    row = [state.job_name, state.state_name, state.kind, key, value]
    if measure is not None:
        complete = "yes" if measure.complete else "no"
        row += [*size_cells(measure), complete]
    return row


def size_cells(measure: StateMeasure) -> list[str]:
    """Keys, records and bytes with their errors: `1,204,331 +- 1.2 %`."""
    return [
        estimate_text(f"{measure.keys:,}", measure.keys, measure.keys_error),
        estimate_text(f"{measure.records:,}", measure.records, measure.records_error),
        estimate_text(bytes_text(measure.bytes), measure.bytes, measure.bytes_error),
    ]


def _asking_all(states: list[StateInfo]) -> list[str]:
    return [
        f"{state.job_name}, {state.state_name}: {NOT_HASH_PARTITIONED}"
        for state in states
        if state.asks_all_partitions
    ]


def _failures(pairs: list[tuple[StateInfo, StateMeasure | None]]) -> list[str]:
    return [
        f"{state.state_name}, key groups {part.first_key_group} to {part.last_key_group}: "
        f"{error_text(part.error)}"
        for state, measure in pairs
        if measure is not None
        for part in measure.parts
        if part.error is not None
    ]
