"""The log a file source keeps of the files it has read, cut off behind an offset.

The source's offset is the id of its newest log entry. An entry is a file `<id>`; every so many
ids the file is `<id>.compact` and has all entries up to it, after which Spark removes older ones.
Where Spark starts it takes the newest file as the end of the log and divides the id of the newest
`.compact` file into intervals again: a log of one `.compact` file is one it can go on from.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from queryable_state.wire.errors import CorruptDataError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_COMPACT = ".compact"


class FileGoneError(Exception):
    """A file was removed between the listing and the reading: list again."""


def file_log_offset(offset: str) -> int | None:
    """The log id a file source's offset names; None: it is another source's."""
    try:
        parsed = json.loads(offset)
    except ValueError:
        return None
    if isinstance(parsed, dict) and set(parsed) == {"logOffset"}:
        return int(parsed["logOffset"])
    return None


def is_file_log(content: bytes) -> bool:
    """Whether a file of a source's folder is of the log of a file source."""
    lines = content.splitlines()
    if len(lines) < 2:
        return False
    try:
        entry = json.loads(lines[1])
    except ValueError:
        return False
    return isinstance(entry, dict) and {"path", "batchId"} <= set(entry)


def cut_log(
    names: Iterable[str], read: Callable[[str], bytes | None], end: int
) -> dict[str, bytes]:
    """The files of a log that ends with entry `end`, by name.

    Those that are there are taken as they are. Where Spark has removed one, because a `.compact`
    file beyond the end has its entries, that one is rewritten without what is beyond.
    FileGoneError where a file is gone and no `.compact` file has its entries either.
    """
    there = set(names)
    compacted = sorted(
        int(name.removesuffix(_COMPACT))
        for name in there
        if name.endswith(_COMPACT) and name.removesuffix(_COMPACT).isdigit()
    )
    base = max((number for number in compacted if number <= end), default=-1)
    wanted = [] if base < 0 else [f"{base}{_COMPACT}"]
    wanted += map(str, range(base + 1, end + 1))
    if there.issuperset(wanted):
        return {name: _content(name, read) for name in wanted}
    beyond = min((number for number in compacted if number > end), default=None)
    if beyond is None:
        missing = next(name for name in wanted if name not in there)
        raise FileGoneError(missing)
    name = f"{beyond}{_COMPACT}"
    return {f"{end}{_COMPACT}": _without_later(name, _content(name, read), end)}


def _content(name: str, read: Callable[[str], bytes | None]) -> bytes:
    content = read(name)
    if content is None:
        raise FileGoneError(name)
    return content


def _without_later(name: str, content: bytes, end: int) -> bytes:
    version, *entries = content.split(b"\n")
    try:
        kept = [entry for entry in entries if entry and int(json.loads(entry)["batchId"]) <= end]
    except (ValueError, KeyError, TypeError) as problem:
        raise CorruptDataError(
            f"{name} of the log of a file source has an entry that is not as Spark 4 writes it: "
            f"{problem!r}"
        ) from problem
    return b"\n".join([version, *kept])
