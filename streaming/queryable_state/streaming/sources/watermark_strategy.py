"""Watermark strategies: the timestamps of a stream's elements, and the watermark behind them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import timedelta
from typing import Any, NoReturn

from queryable_state.wire.errors import InvalidRequestError, Reason


class TimestampAssigner(ABC):
    """A function from an element to its timestamp."""

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """The event time of an element in milliseconds since the epoch.

        `record_timestamp` is the timestamp that the element has so far, such as that of its
        source; -2**63 if it has none. Must be deterministic: Spark may run it several times.
        """


class WatermarkStrategy:
    """The timestamps of a stream's elements, and how far they may be out of order.

    Without a `TimestampAssigner` the timestamps are those that the elements have.
    """

    def __init__(self, delay_ms: int | None) -> None:
        """Use the static methods. `delay_ms` is the delay of Spark's `withWatermark`; None: no
        watermarks."""
        self._delay_ms = delay_ms
        self._assigner: TimestampAssigner | None = None
        self._has_idleness = False

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """No watermarks; with an assigner the elements have timestamps."""
        return WatermarkStrategy(None)

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """For timestamps that only ascend: the same as a maximum out-of-orderness of 0."""
        return WatermarkStrategy.for_bounded_out_of_orderness(timedelta())

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: timedelta) -> WatermarkStrategy:
        """The watermark is the greatest timestamp, less this duration and 1 ms.

        It is that of the batches before. Durations are rounded down to milliseconds.
        """
        bound_ms = _millis(max_out_of_orderness, "max_out_of_orderness")
        # The watermark of Spark is the greatest timestamp less the delay.
        return WatermarkStrategy(bound_ms + 1)

    def with_timestamp_assigner(self, timestamp_assigner: TimestampAssigner) -> WatermarkStrategy:
        """Sets the function that returns the timestamp of each element; returns this strategy."""
        if not isinstance(timestamp_assigner, TimestampAssigner):
            raise InvalidRequestError(
                "with_timestamp_assigner takes an object of a subclass of TimestampAssigner, not "
                f"{timestamp_assigner!r}"
            )
        self._assigner = timestamp_assigner
        return self

    def with_idleness(self, idle_timeout: timedelta) -> WatermarkStrategy:
        """Has no effect on a job with one watermarked input; returns this strategy.

        The watermark of one input moves with its elements only. A job with several watermarked
        inputs is refused, because Spark cannot leave an idle one out.
        """
        _millis(idle_timeout, "idle_timeout")
        self._has_idleness = True
        return self

    def with_watermark_alignment(
        self,
        watermark_group: str,
        max_allowed_watermark_drift: timedelta,
        update_interval: timedelta | None = None,
    ) -> NoReturn:
        """Raises InvalidRequestError: Spark cannot hold one source back for another."""
        raise InvalidRequestError(
            "with_watermark_alignment is not supported: Spark reads all sources in each batch, "
            "each as far as it is. Limit a source that is ahead with its own options, such as "
            "maxOffsetsPerTrigger or maxFilesPerTrigger",
            reason=Reason.UNSUPPORTED,
        )

    @property
    def delay_ms(self) -> int | None:
        """The delay of Spark's `withWatermark` in milliseconds; None: no watermarks."""
        return self._delay_ms

    @property
    def assigner(self) -> TimestampAssigner | None:
        """The function that returns the timestamp of an element; None: elements keep theirs."""
        return self._assigner

    @property
    def has_idleness(self) -> bool:
        """True if `with_idleness` was called."""
        return self._has_idleness


def _millis(duration: object, what: str) -> int:
    """A duration in milliseconds; InvalidRequestError if it is none, or negative."""
    if not isinstance(duration, timedelta):
        raise InvalidRequestError(
            f"{what} is a Duration such as Duration.of_seconds(5), not {duration!r}"
        )
    if duration < timedelta():
        raise InvalidRequestError(
            f"{what} must not be negative, but it is {duration.total_seconds():g} s"
        )
    return duration // timedelta(milliseconds=1)
