"""Command `queryable-state get`: reads one key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.cli.answers import info_json, info_text, life_text, print_json
from queryable_state.cli.arguments import (
    KEYS_EPILOG,
    add_operation,
    add_reading,
    add_state,
    key_of,
    read_options,
    window_json,
)
from queryable_state.cli.exit_codes import NOT_THERE
from queryable_state.cli.tables import table
from queryable_state.wire.errors import InvalidRequestError, Reason, UnknownKeyOrNamespaceError

if TYPE_CHECKING:
    import argparse

    from queryable_state.cli.shown_state import ShownState
    from queryable_state.client import KvState, Presence, QueryableStateClient, ReadInfo, Size


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command's arguments."""
    parser = commands.add_parser(
        "get",
        help="read one key, one entry of a map, or a slice of a list",
        description="Prints the value of one key, or its pending timers. Exits with 1 if the key "
        "has no value.",
        epilog=KEYS_EPILOG,
    )
    add_state(parser)
    parser.add_argument("key", metavar="KEY")
    parser.add_argument("--map-key", metavar="KEY", help="only this entry of a map")
    parser.add_argument(
        "--slice",
        metavar="START:STOP",
        help="only these elements of a list, as in Python; from the end: --slice=-10:",
    )
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--exists", action="store_true", help="print only whether the key or the entry exists"
    )
    instead.add_argument("--size", action="store_true", help="print only the size of the value")
    add_reading(parser)
    add_operation(parser, _get, of_state=True)


async def _get(options: argparse.Namespace, client: QueryableStateClient, shown: ShownState) -> int:
    if options.size and options.map_key is not None:
        raise InvalidRequestError("--size is the size of the whole value: omit --map-key")
    if options.slice is not None and (options.exists or options.size or options.map_key):
        raise InvalidRequestError("--slice reads elements: omit --exists, --size and --map-key")
    key = key_of(options.key, shown.state.key_type)
    asked: dict[str, Any] = {**shown.names(), "key": shown.key(key), **window_json(options)}
    entry: tuple[Any, ...] = ()
    if options.map_key is not None:
        entry = (_map_key(options.map_key, shown),)
        asked["map_key"] = shown.map_key(entry[0])
    where = (options.job, options.state, key)
    context = read_options(options)
    if options.exists:
        presence = await client.contains(*where, *entry, **context)
        asked["status"] = "found" if presence else "missing"
        answer = "true" if presence else "false"
        _print(options, asked, presence.is_present, presence, [answer])
        return 0 if presence else NOT_THERE
    asked["status"] = "found"
    looked_in: ReadInfo | None = None
    try:
        if options.size:
            size = await client.size(*where, **context)
            figures = {"elements": size.elements, "value_bytes": size.value_bytes}
            lines = table(list(figures), [[str(figure) for figure in figures.values()]])
            _print(options, asked, figures, size, lines)
            return 0
        if options.slice is not None:
            start, limit = _range(options.slice)
            part = await client.get_list_slice(*where, start, limit, **context)
            asked.update(start=part.start, limit=part.limit, length=part.length)
            lines = table(*shown.value_table(key, part))
            last = part.start + len(part) - 1
            lines.append(
                f"none of {part.length} elements"
                if part.is_empty()
                else f"elements {part.start} to {last} of {part.length}"
            )
            _print(options, asked, shown.value(part), part, lines)
            return 0
        if entry:
            found: KvState = await client.get_map_entry(*where, *entry, **context)
        else:
            # `multi_get` also returns the batch that was read if the key has no value.
            [result] = await client.multi_get(options.job, options.state, [key], **context)
            looked_in = result.info
            found = result.get()
    except UnknownKeyOrNamespaceError:
        if options.json:
            asked["status"] = "missing"
            print_json({**asked, "value": None, "remaining_ms": None, "info": info_json(looked_in)})
        raise
    lines = table(*shown.value_table(key, found))
    _print(options, asked, shown.value(found), found, lines)
    return 0


def _map_key(word: str, shown: ShownState) -> Any:
    map_key_type = shown.state.map_key_type
    if map_key_type is None:
        raise InvalidRequestError(
            f"state {shown.state.state_name!r} is of kind {shown.state.kind}: only a MAP or "
            "BROADCAST has entries; omit --map-key",
            reason=Reason.UNSUPPORTED,
        )
    return key_of(word, map_key_type)


def _range(text: str) -> tuple[int, int | None]:
    """Start and limit of a slice in Python's notation; both ends count from the same side."""
    first, colon, last = text.partition(":")
    try:
        start, stop = int(first or 0), int(last) if last else None
    except ValueError:
        colon = ""
        start, stop = 0, None
    if not colon:
        raise InvalidRequestError(f"--slice {text}: give START:STOP, as in 0:10, 100:120 or -10:")
    if stop is None:
        return start, None
    if (start < 0) is not (stop < 0) or stop <= start:
        raise InvalidRequestError(
            f"--slice {text}: START is before STOP, and both count from the same end of the list"
        )
    return start, stop - start


def _print(
    options: argparse.Namespace,
    asked: dict[str, Any],
    value: Any,
    found: KvState | Presence | Size,
    lines: list[str],
) -> None:
    info, remaining_ms = found.info, found.remaining_ms
    if options.json:
        print_json({**asked, "value": value, "remaining_ms": remaining_ms, "info": info_json(info)})
        return
    life = [] if remaining_ms is None else [f"remaining life: {life_text(remaining_ms)}"]
    print(*lines, "", *life, info_text(info), sep="\n")
