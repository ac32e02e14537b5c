"""Amounts of time with PyFlink's constructors: `Duration`, and `Time` in milliseconds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Self

from queryable_state.wire.errors import InvalidRequestError


class Duration(timedelta):
    """A `datetime.timedelta` with PyFlink's constructors; its resolution is one microsecond."""

    @classmethod
    def of_days(cls, days: int) -> Self:
        """A duration of days."""
        return cls(days=days)

    @classmethod
    def of_hours(cls, hours: int) -> Self:
        """A duration of hours."""
        return cls(hours=hours)

    @classmethod
    def of_minutes(cls, minutes: int) -> Self:
        """A duration of minutes."""
        return cls(minutes=minutes)

    @classmethod
    def of_seconds(cls, seconds: int) -> Self:
        """A duration of seconds."""
        return cls(seconds=seconds)

    @classmethod
    def of_millis(cls, millis: int) -> Self:
        """A duration of milliseconds."""
        return cls(milliseconds=millis)

    @classmethod
    def of_nanos(cls, nanos: int) -> Self:
        """A duration of nanoseconds, rounded to microseconds."""
        return cls(microseconds=nanos / 1000)


@dataclass(frozen=True, order=True, slots=True, init=False)
class Time:
    """An amount of time in milliseconds."""

    _milliseconds: int

    def __init__(self, milliseconds: int) -> None:
        object.__setattr__(self, "_milliseconds", _whole(milliseconds, "milliseconds"))

    @staticmethod
    def milliseconds(milliseconds: int) -> Time:
        """A time of this many milliseconds."""
        return Time(milliseconds)

    @staticmethod
    def seconds(seconds: int) -> Time:
        """A time of this many seconds."""
        return Time(_whole(seconds, "seconds") * 1_000)

    @staticmethod
    def minutes(minutes: int) -> Time:
        """A time of this many minutes."""
        return Time(_whole(minutes, "minutes") * 60_000)

    @staticmethod
    def hours(hours: int) -> Time:
        """A time of this many hours."""
        return Time(_whole(hours, "hours") * 3_600_000)

    @staticmethod
    def days(days: int) -> Time:
        """A time of this many days."""
        return Time(_whole(days, "days") * 86_400_000)

    def to_milliseconds(self) -> int:
        """The time in milliseconds."""
        return self._milliseconds

    def __str__(self) -> str:
        return f"{self._milliseconds} ms"


def time_of(amount: object, what: str) -> Time:
    """The `Time` of a `Time` or `timedelta`; InvalidRequestError for a value of another type."""
    if isinstance(amount, Time):
        return amount
    if isinstance(amount, timedelta):
        return Time(amount // timedelta(milliseconds=1))
    raise InvalidRequestError(f"{what} is a Time such as Time.hours(1), not {amount!r}")


def _whole(amount: object, unit: str) -> int:
    if not isinstance(amount, int) or isinstance(amount, bool):
        raise InvalidRequestError(f"an amount of {unit} is an int, not {amount!r}")
    return amount
