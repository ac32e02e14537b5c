"""Amounts of time, as PyFlink has them: `Time` in milliseconds, `Duration` in nanoseconds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from queryable_state.wire.errors import InvalidRequestError

_NANOS_PER_MILLI = 1_000_000
_NANOS_PER_SECOND = 1_000 * _NANOS_PER_MILLI


@dataclass(frozen=True, order=True, slots=True)
class Time:
    """An amount of time in milliseconds."""

    _milliseconds: int

    @staticmethod
    def milliseconds(milliseconds: int) -> Time:
        """A time of this many milliseconds."""
        return Time(_whole(milliseconds, "milliseconds"))

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


@dataclass(frozen=True, order=True, slots=True)
class Duration:
    """An amount of time in nanoseconds."""

    _nanos: int

    @staticmethod
    def of_nanos(nanos: int) -> Duration:
        """A duration of this many nanoseconds."""
        return Duration(_whole(nanos, "nanos"))

    @staticmethod
    def of_millis(millis: int) -> Duration:
        """A duration of this many milliseconds."""
        return Duration(_whole(millis, "millis") * _NANOS_PER_MILLI)

    @staticmethod
    def of_seconds(seconds: int) -> Duration:
        """A duration of this many seconds."""
        return Duration(_whole(seconds, "seconds") * _NANOS_PER_SECOND)

    @staticmethod
    def of_minutes(minutes: int) -> Duration:
        """A duration of this many minutes."""
        return Duration(_whole(minutes, "minutes") * 60 * _NANOS_PER_SECOND)

    @staticmethod
    def of_hours(hours: int) -> Duration:
        """A duration of this many hours."""
        return Duration(_whole(hours, "hours") * 3_600 * _NANOS_PER_SECOND)

    @staticmethod
    def of_days(days: int) -> Duration:
        """A duration of this many days."""
        return Duration(_whole(days, "days") * 86_400 * _NANOS_PER_SECOND)

    def to_millis(self) -> int:
        """The duration in whole milliseconds, rounded down."""
        return self._nanos // _NANOS_PER_MILLI

    def __str__(self) -> str:
        return f"{self._nanos / _NANOS_PER_MILLI:g} ms"


def time_of(amount: object, what: str) -> Time:
    """The `Time` of a `Time`, `Duration` or `timedelta`; InvalidRequestError for another type."""
    match amount:
        case Time():
            return amount
        case Duration():
            return Time(amount.to_millis())
        case timedelta():
            return Time(amount // timedelta(milliseconds=1))
    raise InvalidRequestError(f"{what} is a Time such as Time.hours(1), not {amount!r}")


def _whole(amount: object, unit: str) -> int:
    if not isinstance(amount, int) or isinstance(amount, bool):
        raise InvalidRequestError(f"an amount of {unit} is an int, not {amount!r}")
    return amount
