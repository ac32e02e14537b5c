"""Time to live of the values of one state, and the remaining life of stored values.

A value has the time of its last update in its header, or with a TTL per value (state of Spark's own
operators) that of its expiry. It is **expired** from `ttl_ms` after that
time on. It is **gone** from then on, too, unless the state returns expired values: these are
readable for one more `ttl_ms`. Every reader treats a gone value as absent, so nobody can tell
whether clean-up has removed it. A value without a timestamp does not expire: it was written before
the state had a TTL.

Tasks judge by the timestamp of their batch, which a replay sees again; queries judge by the clock
of the server that answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.values.list_elements import element_count
from queryable_state.wire.values.value_codec import timestamp_of

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Lifetime:
    """The TTL of one state."""

    ttl_ms: int
    """Milliseconds from the last update of a value to its expiry."""
    renewed_by_reads: bool
    """True if a task's read counts as an update."""
    returns_expired: bool
    """True if readers see an expired value until it is gone."""
    removed_by_reads: bool
    """True if a task's read removes a gone value, because no background clean-up does."""

    @staticmethod
    def of(state: registration_pb2.StateRegistration) -> Lifetime | None:
        """The TTL of a registered state; None if its values do not expire."""
        ttl = state.ttl
        if not ttl.ttl_ms:
            return None
        return Lifetime(
            ttl.ttl_ms,
            ttl.update == registration_pb2.TimeToLive.ON_READ_AND_WRITE,
            ttl.return_expired,
            not (ttl.visits_per_commit or ttl.visits_per_change or ttl.visits_per_row),
        )

    def expired_ms(self, now_ms: int) -> int:
        """Values updated at or before the returned time are expired at `now_ms`."""
        return now_ms - self.ttl_ms

    def gone_ms(self, now_ms: int) -> int:
        """Values updated at or before the returned time are gone at `now_ms`."""
        return now_ms - self.ttl_ms * (2 if self.returns_expired else 1)


def gone_ms(state: registration_pb2.StateRegistration, now_ms: int) -> int | None:
    """As `Lifetime.gone_ms`; None if the values of the state do not expire."""
    lifetime = Lifetime.of(state)
    return None if lifetime is None else lifetime.gone_ms(now_ms)


def expires_at_ms(values: Iterable[bytes], info: query_pb2.ReadInfo) -> int | None:
    """Milliseconds since the epoch at which the last value of a key expires.

    None if one of the values does not expire, or if the state has no TTL.
    """
    if not _has_ttl(info):
        return None
    updated_ms: list[int] = []
    for value in values:
        timestamp_ms = timestamp_of(value)
        if timestamp_ms is None:
            return None
        updated_ms.append(timestamp_ms)
    # With a TTL per value these are the times of expiry, and `ttl_ms` is 0.
    return max(updated_ms) + info.ttl_ms if updated_ms else None


def _has_ttl(info: query_pb2.ReadInfo) -> bool:
    return bool(info.ttl_ms) or info.ttl_per_value


def remaining_ms(values: Iterable[bytes], info: query_pb2.ReadInfo) -> int | None:
    """Milliseconds from the read until `expires_at_ms`; 0 if all values are expired already."""
    end_ms = expires_at_ms(values, info)
    return None if end_ms is None else max(0, end_ms - info.read_time_ms)


def chunk_remaining_ms(chunks: Iterable[bytes], info: query_pb2.ReadInfo) -> list[int | None]:
    """`remaining_ms` of each element of some chunks of a list."""
    remaining: list[int | None] = []
    for chunk in chunks:
        remaining += [remaining_ms((chunk,), info)] * element_count(chunk)
    return remaining


def answered_remaining_ms(
    read: query_pb2.ReadKind.ValueType, value: bytes, info: query_pb2.ReadInfo
) -> int | None:
    """`remaining_ms` of the answer for one key, by its kind of read."""
    if not _has_ttl(info):
        return None
    match read:
        case query_pb2.PREFIX:
            return remaining_ms(query_pb2.Records.FromString(value).values, info)
        case query_pb2.EXISTS:
            presence = query_pb2.Presence.FromString(value)
            return presence.remaining_ms if presence.HasField("remaining_ms") else None
        case query_pb2.SLICE:
            return remaining_ms(query_pb2.ListSlice.FromString(value).chunks, info)
        case query_pb2.WINDOWS:
            windows = query_pb2.KeyWindows.FromString(value).records
            return remaining_ms((each for records in windows for each in records.values), info)
        case query_pb2.SIZE:
            size = query_pb2.Size.FromString(value)
            return size.remaining_ms if size.HasField("remaining_ms") else None
        case _:
            return remaining_ms((value,), info)
