"""Instant of PyFlink: a point in time as seconds and nanoseconds since the epoch."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, order=True, slots=True)
class Instant:
    """A point in time, of type `Types.INSTANT()`. Values of state have whole microseconds."""

    seconds: int
    """Whole seconds since 1970-01-01T00:00:00Z, rounded down."""
    nanos: int
    """Nanoseconds after them, 0 to 999,999,999."""

    def __post_init__(self) -> None:
        if not 0 <= self.nanos < 1_000_000_000:
            raise ValueError(f"nanos is {self.nanos}, but must be 0 to 999999999")

    def to_epoch_milli(self) -> int:
        """Milliseconds since the epoch, rounded down."""
        return self.seconds * 1000 + self.nanos // 1_000_000

    @staticmethod
    def of_epoch_milli(epoch_milli: int) -> Instant:
        """The instant this many milliseconds after the epoch."""
        seconds, millis = divmod(epoch_milli, 1000)
        return Instant(seconds, millis * 1_000_000)

    def to_epoch_micros(self) -> int:
        """Microseconds since the epoch; raises ValueError for a fraction of a microsecond."""
        if self.nanos % 1000:
            raise ValueError(f"{self!r} is no whole number of microseconds")
        return self.seconds * 1_000_000 + self.nanos // 1000

    @staticmethod
    def of_epoch_micros(micros: int) -> Instant:
        """The instant this many microseconds after the epoch."""
        seconds, rest = divmod(micros, 1_000_000)
        return Instant(seconds, rest * 1000)

    def to_datetime(self) -> datetime:
        """The instant in UTC; OverflowError outside the years 1 to 9999."""
        return _EPOCH + timedelta(microseconds=self.to_epoch_micros())

    @staticmethod
    def of_datetime(value: datetime) -> Instant:
        """The instant of a datetime with a time zone."""
        return Instant.of_epoch_micros((value - _EPOCH) // timedelta(microseconds=1))

    def __repr__(self) -> str:
        return f"Instant<{self.seconds}, {self.nanos}>"
