"""Durations with PyFlink's constructors."""

from __future__ import annotations

from datetime import timedelta
from typing import Self


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
