"""Expiry of one state's values in one batch, by the timestamp of the batch.

The timestamp is the same in every attempt at a batch, and within a batch no value expires. Gone
values (`wire.values.lifetime`) are absent, whether or not clean-up has removed them, so outputs
and changes of a batch do not depend on clean-up. So a read removes a gone value only where there
is no background clean-up.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from queryable_state.wire.errors import InternalError
from queryable_state.wire.values.lifetime import Lifetime
from queryable_state.wire.values.value_codec import timestamp_of, with_timestamp

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.v1.registration_pb2 import StateRegistration


class Life(enum.Enum):
    """What became of a stored value."""

    LIVE = enum.auto()
    EXPIRED = enum.auto()
    """Expired, and visible to a function once more."""
    GONE = enum.auto()


class Expiry:
    """The TTL of a state at the timestamp of a batch."""

    def __init__(self, lifetime: Lifetime, batch_timestamp_ms: int) -> None:
        self.lifetime = lifetime
        self._now_ms = batch_timestamp_ms
        self._expired_ms = lifetime.expired_ms(batch_timestamp_ms)
        self._gone_ms = lifetime.gone_ms(batch_timestamp_ms)

    @staticmethod
    def of(registration: StateRegistration, batch_timestamp_ms: int) -> Expiry | None:
        """The expiry of a registered state; None if its values do not expire."""
        lifetime = Lifetime.of(registration)
        return None if lifetime is None else Expiry(lifetime, batch_timestamp_ms)

    @staticmethod
    def of_expiring(registration: StateRegistration, batch_timestamp_ms: int) -> Expiry:
        """The expiry of a registered state whose values expire."""
        expiry = Expiry.of(registration, batch_timestamp_ms)
        if expiry is None:
            raise InternalError(f"state {registration.state_name!r} was registered without its TTL")
        return expiry

    def life_of(self, data: bytes) -> Life:
        """The life of a stored value."""
        timestamp_ms = timestamp_of(data)
        if timestamp_ms is None or timestamp_ms > self._expired_ms:
            return Life.LIVE
        return Life.GONE if timestamp_ms <= self._gone_ms else Life.EXPIRED

    def updated(self, data: bytes) -> bytes:
        """The bytes of a value, which has no timestamp, as updated by this batch."""
        return with_timestamp(data, self._now_ms)

    def updater(self, header: bytes) -> Callable[[bytes], bytes]:
        """As `updated`, fast for values with this header, which has no timestamp."""
        stamped, length, now_ms = with_timestamp(header, self._now_ms), len(header), self._now_ms

        def updated(data: bytes) -> bytes:
            if data.startswith(header):
                return stamped + data[length:]
            return with_timestamp(data, now_ms)

        return updated
