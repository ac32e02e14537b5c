"""Command `queryable-state mget`: reads many keys, with a status for each."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from queryable_state.cli.answers import (
    batch_text,
    error_json,
    error_text,
    info_json,
    print_json,
    who_text,
)
from queryable_state.cli.arguments import (
    KEYS_EPILOG,
    add_operation,
    add_reading,
    add_state,
    key_of,
    keys_of_lines,
    read_options,
    window_json,
)
from queryable_state.cli.exit_codes import NOT_THERE, REFUSED
from queryable_state.cli.tables import table
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    import argparse

    from queryable_state.cli.shown_state import ShownState
    from queryable_state.client import KeyResult, MultiGet, QueryableStateClient


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command's arguments."""
    parser = commands.add_parser(
        "mget",
        help="read many keys, with a status for each",
        description="Prints the values of many keys, on any servers. Exits with 1 if some keys "
        "have no value, with 2 if some keys could not be read.",
        epilog=KEYS_EPILOG,
    )
    add_state(parser)
    keys = parser.add_argument("keys", metavar="KEY", nargs="+", default=[])
    # With nargs="*" argparse would consume an empty list if an option follows STATE.
    keys.required = False
    parser.add_argument(
        "--keys-from", metavar="FILE", help="also read keys from a file, one per line; - is stdin"
    )
    parser.add_argument(
        "--one-cut", action="store_true", help="read all values from one committed batch"
    )
    add_reading(parser)
    add_operation(parser, _mget, of_state=True)


async def _mget(
    options: argparse.Namespace, client: QueryableStateClient, shown: ShownState
) -> int:
    if not options.keys and options.keys_from is None:
        raise InvalidRequestError("no keys: pass KEY arguments or --keys-from FILE")
    key_type = shown.state.key_type
    keys = [key_of(word, key_type) for word in options.keys]
    if options.keys_from is not None:
        keys += keys_of_lines(_lines(options.keys_from), key_type)
    answer = await client.multi_get(
        options.job, options.state, keys, one_cut=options.one_cut, **read_options(options)
    )
    if options.json:
        results = [_result_json(result, shown) for result in answer]
        names = {**shown.names(), **window_json(options)}
        print_json({**names, "version": answer.version, "results": results})
    else:
        print(*_lines_of(answer, shown), sep="\n")
    if answer.failed:
        return REFUSED
    return NOT_THERE if answer.missing else 0


def _lines(file: str) -> list[str]:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text()
    except (OSError, UnicodeDecodeError) as problem:
        raise InvalidRequestError(f"--keys-from {file} cannot be read: {problem}") from problem
    return text.split("\n")


def _result_json(result: KeyResult, shown: ShownState) -> dict[str, Any]:
    return {
        "key": shown.key(result.key),
        "status": result.status.value,
        "value": None if result.state is None else shown.value(result.state),
        "remaining_ms": None if result.state is None else result.state.remaining_ms,
        "error": error_json(result.error),
        "info": info_json(result.info),
    }


def _lines_of(answer: MultiGet, shown: ShownState) -> list[str]:
    head = [*shown.key_head, "status", "batch", *shown.value_head]
    lines = table(head, [_row(result, shown) for result in answer])
    found, missing, failed = len(answer.found()), len(answer.missing), len(answer.failed)
    lines += ["", f"{len(answer)} keys: {found} found, {missing} missing, {failed} failed"]
    lines += [f"{batch_text(info.version)} from {who_text(info)}" for info in answer.info.values()]
    lines += sorted({error_text(error) for _, error in answer.failed})
    return lines


def _row(result: KeyResult, shown: ShownState) -> list[str]:
    if result.state is None:
        values = [""] * len(shown.value_head)
    else:
        values = shown.value_cells(result.state)
    batch = "" if result.info is None else str(result.info.version)
    return [*shown.key_cells(result.key), result.status.value, batch, *values]
