"""Command `queryable-state scan`: reads all keys of a state, a range, or a prefix."""

from __future__ import annotations

import base64
import binascii
import json
import sys
from typing import TYPE_CHECKING, Any

from queryable_state.cli.answers import error_json, error_text, info_json, info_text
from queryable_state.cli.arguments import (
    KEYS_EPILOG,
    add_operation,
    add_reading,
    add_state,
    key_of,
    prefix_of,
    read_options,
    window_json,
)
from queryable_state.cli.exit_codes import NOT_THERE
from queryable_state.cli.progress import ProgressBar
from queryable_state.cli.tables import GrowingTable
from queryable_state.wire.errors import InvalidRequestError, QueryableStateError

if TYPE_CHECKING:
    import argparse
    from collections.abc import AsyncIterator

    from queryable_state.cli.shown_state import ShownState
    from queryable_state.client import KvState, QueryableStateClient, Scan
    from queryable_state.client._scans.page import Page


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command's arguments."""
    parser = commands.add_parser(
        "scan",
        help="read all keys of a state, a range, or a prefix",
        description="Prints keys with their values as of one committed batch, in key order within "
        "each key group. Exits with 1 if state of some keys was lost or exceeds the size of a "
        "response. If the output goes to a file, a bar on the terminal shows how far it is.",
        epilog=KEYS_EPILOG,
    )
    add_state(parser)
    parser.add_argument("--start", metavar="KEY", help="first key, inclusive")
    parser.add_argument("--end", metavar="KEY", help="last key, exclusive")
    parser.add_argument(
        "--prefix",
        metavar="KEY",
        help="keys with this prefix: the start of a string or the first fields of a tuple; not "
        "with --start or --end",
    )
    parser.add_argument("--limit", type=int, metavar="COUNT", help="maximum number of keys")
    parser.add_argument(
        "--page-token",
        default="",
        metavar="TOKEN",
        help="continue a scan of the same keys after its --limit, from the same batch",
    )
    parser.add_argument(
        "--allow-newer",
        action="store_true",
        help="if the batch of --page-token is gone, continue with the newest batch",
    )
    parser.add_argument("--keys-only", action="store_true", help="print no values")
    add_reading(parser)
    add_operation(parser, _scan, of_state=True)


async def _scan(
    options: argparse.Namespace, client: QueryableStateClient, shown: ShownState
) -> int:
    key_type = shown.state.key_type
    keys: dict[str, Any] = {
        name: read(word, key_type)
        for name, word, read in (
            ("start", options.start, key_of),
            ("end", options.end, key_of),
            ("prefix", options.prefix, prefix_of),
        )
        if word is not None
    }
    scan = client.scan(
        options.job,
        options.state,
        **keys,
        limit=options.limit,
        page_token=_token_of(options.page_token),
        allow_newer=options.allow_newer,
        keys_only=options.keys_only,
        **read_options(options),
    )
    # On a terminal the output itself shows how far the scan is.
    is_export = sys.stderr.isatty() and not sys.stdout.isatty()
    expected = await _expected(client, options, shown, of_all=not keys) if is_export else None
    async with scan:
        pages = scan.pages() if expected is None else _with_bar(scan, expected)
        if options.json:
            await _print_json(scan, pages, {**shown.names(), **window_json(options)}, shown)
        else:
            head = list(shown.key_head)
            # Each window of a key is an item of its own.
            if shown.state.is_windowed and options.window is None and shown.state.kind != "TIMER":
                head.append("window")
            await _print_table(scan, pages, shown, head, keys_only=options.keys_only)
    # A scan that ended at its limit is not incomplete.
    return 0 if scan.complete or scan.page_token else NOT_THERE


async def _expected(
    client: QueryableStateClient, options: argparse.Namespace, shown: ShownState, *, of_all: bool
) -> int:
    """About how many rows the scan returns; 0: not known."""
    limit = options.limit or 0
    if not of_all or options.page_token or shown.state.is_windowed:
        return limit
    try:
        keys = (await client.measure(options.job, options.state)).keys
    except QueryableStateError:
        return limit
    return min(keys, limit) if limit else keys


async def _with_bar(scan: Scan, expected: int) -> AsyncIterator[Page]:
    """The pages of a scan, with a bar."""
    rows = 0
    with ProgressBar("reading") as bar:
        bar.show(0, expected)
        async for page in scan.pages():
            yield page
            rows += len(page)
            bar.show(rows, expected, f"{rows:,} keys")


async def _print_table(
    scan: Scan, pages: AsyncIterator[Page], shown: ShownState, head: list[str], *, keys_only: bool
) -> None:
    lines = GrowingTable([*head, *([] if keys_only else shown.value_head)])
    count = 0
    async for page in pages:
        rows = [
            [*shown.key_cells(key), *([] if state is None else _value_cells(state, shown))]
            for key, state in page
        ]
        count += len(rows)
        print(*lines.add(rows), sep="\n", flush=True)
    if not count:
        print(*lines.add([]), sep="\n")
    print()
    of = "" if scan.info is None else f", {info_text(scan.info)}"
    print(f"{count} keys{of}")
    if scan.is_newer:
        print("from a newer batch than the previous page")
    if scan.page_token:
        print(f"more keys may follow: --page-token {_token_text(scan.page_token)}")
    elif not scan.complete:
        print("not complete: state of some keys was lost or exceeds the size of a response")


def _value_cells(state: KvState, shown: ShownState) -> list[str]:
    try:
        return shown.value_cells(state)
    except QueryableStateError as refusal:
        return [error_text(refusal), *[""] * (len(shown.value_head) - 1)]


async def _print_json(
    scan: Scan, pages: AsyncIterator[Page], names: dict[str, Any], shown: ShownState
) -> None:
    """Prints one JSON object, streamed page by page; an interrupted scan is invalid JSON."""
    head = json.dumps(names)
    print(f'{head[:-1]}, "keys": [', end="")
    before = "\n"
    async for page in pages:
        for key, state in page:
            entry: dict[str, Any] = shown.scanned_key(key)
            if state is not None:
                try:
                    entry |= {"value": shown.value(state), "remaining_ms": state.remaining_ms}
                except QueryableStateError as refusal:
                    entry["error"] = error_json(refusal)
            print(before + json.dumps(entry, allow_nan=False), end="")
            before = ",\n"
    tail = {
        "complete": scan.complete,
        "is_newer": scan.is_newer,
        "page_token": _token_text(scan.page_token),
        "info": info_json(scan.info),
    }
    print(f"\n], {json.dumps(tail)[1:]}")


def _token_text(token: bytes) -> str:
    return base64.urlsafe_b64encode(token).decode()


def _token_of(text: str) -> bytes:
    try:
        return base64.b64decode(text, altchars=b"-_", validate=True)
    except (ValueError, binascii.Error) as problem:
        raise InvalidRequestError(
            f"--page-token {text[:40]!r} is invalid: use the token that a scan printed: {problem}"
        ) from problem
