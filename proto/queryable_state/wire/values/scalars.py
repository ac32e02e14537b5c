"""Conversion between Python scalars and their integer encodings."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from operator import index

from queryable_state.wire.schema.instant import Instant

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - the wall-clock origin of TIMESTAMP_NTZ
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_DAY_MICROS = 24 * 3600 * 1_000_000
BIG_INT_DIGITS = 38
"""Digits of a BIG_INT, which Spark has as decimal(38,0)."""
_MICROSECOND = timedelta(microseconds=1)
_FIRST_INSTANT = datetime.min.replace(tzinfo=UTC)
_LAST_INSTANT = datetime.max.replace(tzinfo=UTC)
# Enough digits that scaling a decimal(38, s) never rounds.
_EXACT = Context(prec=80)


def days_of(value: object) -> int:
    """Days since 1970-01-01; raises TypeError for anything but a plain date."""
    if not isinstance(value, date) or isinstance(value, datetime):
        raise TypeError(f"needs a datetime.date, not {type(value).__name__}")
    return value.toordinal() - _EPOCH_DAY


def date_of(days: int) -> date:
    """The date that many days after 1970-01-01; raises ValueError outside the years 1 to 9999."""
    try:
        return date.fromordinal(days + _EPOCH_DAY)
    except (ValueError, OverflowError):
        raise ValueError(f"day {days} since 1970 is outside the years 1 to 9999") from None


def micros_of(value: object) -> int:
    """Microseconds from the epoch to an aware datetime or an `Instant`.

    Raises TypeError for a naive one, ValueError outside the years 1 to 9999 in UTC.
    """
    if isinstance(value, Instant):
        micros = value.to_epoch_micros()
        instant_of(micros)
        return micros
    if not isinstance(value, datetime):
        raise TypeError(f"needs a datetime.datetime, not {type(value).__name__}")
    if value.tzinfo is None:
        raise TypeError("needs a datetime with a time zone, e.g. tzinfo=datetime.timezone.utc")
    if not _FIRST_INSTANT <= value <= _LAST_INSTANT:
        raise ValueError("it is outside the years 1 to 9999 in UTC")
    return (value - _EPOCH_UTC) // _MICROSECOND


def instant_of(micros: int) -> datetime:
    """The instant in UTC; raises ValueError outside the years 1 to 9999."""
    try:
        return _EPOCH_UTC + timedelta(microseconds=micros)
    except OverflowError:
        raise ValueError(f"{micros} us since 1970 is outside the years 1 to 9999") from None


def instant_object_of(micros: int) -> Instant:
    """The `Instant`; raises ValueError outside the years 1 to 9999."""
    instant_of(micros)
    return Instant.of_epoch_micros(micros)


def time_micros_of(value: object) -> int:
    """Microseconds from midnight to a time of day; raises TypeError for one with a zone."""
    if not isinstance(value, time):
        raise TypeError(f"needs a datetime.time, not {type(value).__name__}")
    if value.tzinfo is not None:
        raise TypeError("needs a time without a time zone")
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return seconds * 1_000_000 + value.microsecond


def time_of(micros: int) -> time:
    """The time of day; raises ValueError outside of one day."""
    if not 0 <= micros < _DAY_MICROS:
        raise ValueError(f"{micros} us since midnight is not within one day")
    seconds, microsecond = divmod(micros, 1_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return time(hour, minute, second, microsecond)


def big_int_of(value: object) -> int:
    """An integer of at most 38 digits; raises TypeError or ValueError for any other value."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"needs an int, not {type(value).__name__}")
    return unscaled_of(index(value), BIG_INT_DIGITS, 0)


def checked_big_int(number: int) -> int:
    """The integer; raises ValueError if it has more than 38 digits."""
    if abs(number) >= 10**BIG_INT_DIGITS:
        raise ValueError(f"{number} has more than {BIG_INT_DIGITS} digits")
    return number


def wall_micros_of(value: object) -> int:
    """Microseconds from 1970-01-01T00:00 to a naive datetime; raises TypeError for an aware one."""
    if not isinstance(value, datetime):
        raise TypeError(f"needs a datetime.datetime, not {type(value).__name__}")
    if value.tzinfo is not None:
        raise TypeError("needs a datetime without a time zone")
    return (value - _EPOCH) // _MICROSECOND


def wall_time_of(micros: int) -> datetime:
    """The naive datetime; raises ValueError outside the years 1 to 9999."""
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        raise ValueError(f"{micros} us since 1970 is outside the years 1 to 9999") from None


def unscaled_of(value: object, precision: int, scale: int) -> int:
    """The integer `value * 10**scale`; raises TypeError or ValueError if inexact or too large."""
    if isinstance(value, int) and not isinstance(value, bool):
        unscaled = value * int(10**scale) if abs(value) < 10**precision else 10**precision
    elif isinstance(value, Decimal):
        if not value.is_finite():
            raise ValueError(f"{value} is not a finite number")
        if value and value.adjusted() > precision - scale:
            raise ValueError(f"{value} has more than {precision - scale} digits before the point")
        digits = value.normalize(_EXACT) if len(value.as_tuple().digits) <= 80 else value
        exponent = digits.as_tuple().exponent
        if not isinstance(exponent, int) or (digits and -exponent > scale):
            raise ValueError(f"{value} has more than {scale} digits after the point")
        unscaled = int(digits.scaleb(scale, _EXACT)) if digits else 0
    else:
        raise TypeError(f"needs a decimal.Decimal, not {type(value).__name__}")
    if abs(unscaled) >= 10**precision:
        raise ValueError(f"{value} does not fit decimal({precision},{scale})")
    return unscaled


def decimal_of(unscaled: int, precision: int, scale: int) -> Decimal:
    """The decimal of an unscaled integer; raises ValueError for more than `precision` digits."""
    if abs(unscaled) >= 10**precision:
        raise ValueError(f"{unscaled} has more than {precision} digits")
    return Decimal(unscaled).scaleb(-scale, _EXACT)


def shortest_bytes(number: int) -> bytes:
    """The shortest big-endian two's complement of a number."""
    magnitude = number if number >= 0 else ~number
    return number.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)
