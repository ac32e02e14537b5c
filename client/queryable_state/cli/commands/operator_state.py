"""Command `queryable-state operator-state`: reads operator state, by subtask or whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.cli.answers import batch_text, info_json, print_json, who_text
from queryable_state.cli.arguments import add_operation, add_reading, add_state, read_options
from queryable_state.cli.tables import cell, table
from queryable_state.wire.json_text import to_jsonable
from queryable_state.wire.schema.type_model import given

if TYPE_CHECKING:
    import argparse

    from queryable_state.cli.shown_state import ShownState
    from queryable_state.client import OperatorState, QueryableStateClient, SubtaskState


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command's arguments."""
    parser = commands.add_parser(
        "operator-state",
        help="read a list, union list or broadcast state of an operator",
        description="Prints the operator state of all subtasks, or of one. For one entry of a "
        "broadcast state use: queryable-state get STATE 0 --map-key KEY.",
    )
    add_state(parser)
    parser.add_argument("--subtask", type=int, metavar="INDEX", help="only this subtask, from 0")
    parser.add_argument(
        "--one-cut", action="store_true", help="read all subtasks from one committed batch"
    )
    add_reading(parser)
    add_operation(parser, _read, of_state=True)


async def _read(
    options: argparse.Namespace, client: QueryableStateClient, shown: ShownState
) -> int:
    found = await client.get_operator_state(
        options.job,
        options.state,
        options.subtask,
        one_cut=options.one_cut,
        **read_options(options),
    )
    if options.json:
        subtasks = [
            {
                "subtask": each.subtask,
                "value": shown.whole_value(each.value),
                "info": info_json(each.info),
            }
            for each in found
        ]
        print_json({**shown.names(), "version": found.info.version, "subtasks": subtasks})
    else:
        print(*_lines_of(found, shown), sep="\n")
    return 0


def _lines_of(found: OperatorState, shown: ShownState) -> list[str]:
    columns = ["map key", "value"] if found.kind == "BROADCAST" else ["value"]
    rows = [row for each in found for row in _rows(each, shown)]
    infos = {(each.info.version, each.info.server_id): each.info for each in found}
    lines = table(["subtask", *columns], rows)
    lines += ["", f"{len(rows)} elements of {len(found)} subtasks"]
    return lines + [f"{batch_text(info.version)} from {who_text(info)}" for info in infos.values()]


def _rows(each: SubtaskState, shown: ShownState) -> list[list[str]]:
    subtask, value_type = str(each.subtask), given(shown.state.value_type)

    def value_cell(value: Any) -> str:
        return cell(to_jsonable(value, value_type))

    if isinstance(each.value, dict):
        return [
            [subtask, cell(shown.map_key(key)), value_cell(value)]
            for key, value in each.value.items()
        ]
    return [[subtask, value_cell(value)] for value in each.value]
