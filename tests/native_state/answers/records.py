"""Records of queryable states as plain values, in the form of Spark's answers."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Record(NamedTuple):
    """One value of a state: of a key, of its window, of one entry of its map."""

    partition: int
    key: Any
    """The grouping columns."""
    window: Any
    """Of session windows: start and end in microseconds."""
    element: Any
    """The key of a map's entry; the time of a timer."""
    value: Any


def plain(value: Any) -> Any:
    """A value as Spark's answers have it: times in microseconds, dates in days, floats as text."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            value = value.replace(tzinfo=UTC)
        return (value - _EPOCH) // _MICROSECOND
    if isinstance(value, date):
        return (value - _EPOCH.date()).days
    if isinstance(value, time):
        return (datetime.combine(_EPOCH, value, _EPOCH.tzinfo) - _EPOCH) // _MICROSECOND
    if isinstance(value, timedelta):
        return value // _MICROSECOND
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return sorted(([plain(key), plain(item)] for key, item in value.items()), key=repr)
    if isinstance(value, tuple | list):
        return [plain(each) for each in value]
    return value


def differences(found: list[Record], expected: list[Record]) -> list[str]:
    """One line for each record that only one side has, at most ten of each; empty if equal.

    A record that comes twice on one side counts as two.
    """
    ours = Counter(map(repr, found))
    sparks = Counter(map(repr, expected))
    return [f"only found:    {each}" for each in sorted((ours - sparks).elements())[:10]] + [
        f"only expected: {each}" for each in sorted((sparks - ours).elements())[:10]
    ]
