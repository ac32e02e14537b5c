"""What each kind of question is answered with after a batch, worked out from the history alone."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import xxhash
from tests.chaos.checks.reads import Span, What
from tests.chaos.history.history import MISSING
from tests.chaos.jobs.workload import RECENT, SHARES

if TYPE_CHECKING:
    from tests.chaos.checks.reads import Read
    from tests.chaos.history.history import History

KEY_GROUPS = 128


@cache
def key_group(key: str) -> int:
    """The key group of a key."""
    unsigned = xxhash.xxh64_intdigest(key.encode(), 42)
    signed = unsigned - (1 << 64) if unsigned >> 63 else unsigned
    return signed % KEY_GROUPS


@cache
def scanned_order(keys: tuple[str, ...]) -> tuple[str, ...]:
    """Keys as scans give them: by key group, and by their bytes within each."""
    return tuple(sorted(keys, key=_place))


def expected(history: History, read: Read, version: int) -> Any:
    """The one right answer to a question, as of a batch."""
    if read.what == What.SCAN:
        assert read.span is not None
        return _page(history, read.state, read.span, version)
    if read.what == What.MEASURE:
        return [0, KEY_GROUPS - 1, True]
    value = history.value(read.state, read.key, version)
    match read.what:
        case What.VALUE:
            return value
        case What.EXPLAINED:
            return MISSING if value is MISSING else [value, key_group(read.key)]
        case What.WINDOWS | What.TIMERS:
            return value or []
        case What.ENTRY | What.WINDOW:
            assert read.element is not None
            return _entry(value, read.element)
        case What.EXISTS:
            found = value if read.element is None else _entry(value, read.element)
            return found is not MISSING
        case What.SIZE:
            return MISSING if value is MISSING else _elements(read.state, value)
    raise ValueError(f"the history does not answer {read.what}")


def is_right(history: History, read: Read, version: int) -> bool:
    """Whether an answer is that of a batch.

    A page that ends with its limit need not know whether another owner has more.
    """
    truth = expected(history, read, version)
    if read.value == truth:
        return True
    if read.span is None or not read.value:
        return False
    items, rest, complete = read.value
    return items == truth[0] and len(items) == read.span.limit and rest and not complete


def _entry(value: Any, element: int) -> Any:
    return None if value is MISSING else dict(map(tuple, value)).get(element, MISSING)


def _elements(state: str, value: Any) -> int:
    return len(value) if state in (RECENT, SHARES) else 1


def _page(history: History, state: str, span: Span, version: int) -> list[Any]:
    """The keys of a page with their values, whether more follow, and whether it is complete."""
    keys = [
        key
        for key in scanned_order(history.keys_of(state))
        if (span.start is None or key >= span.start)
        and (span.end is None or key < span.end)
        and (span.prefix is None or key.startswith(span.prefix))
        and (span.after is None or _place(key) > _place(span.after))
        and history.value(state, key, version) is not MISSING
    ]
    here = keys if span.limit is None else keys[: span.limit]
    rest = len(here) < len(keys)
    return [
        [[key, None if span.keys_only else history.value(state, key, version)] for key in here],
        rest,
        not rest,
    ]


def _place(key: str) -> tuple[int, bytes]:
    return key_group(key), key.encode()
