"""Watermark strategies of sources; only the one without watermarks is supported."""

from __future__ import annotations

from typing import NoReturn

from queryable_state.wire.errors import InvalidRequestError, Reason


class WatermarkStrategy:
    """The way in which a source makes watermarks."""

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """No watermarks."""
        return WatermarkStrategy()

    @staticmethod
    def for_monotonous_timestamps() -> NoReturn:
        """Raises InvalidRequestError: set the watermark on a DataFrame."""
        raise _unsupported("for_monotonous_timestamps()")

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: object) -> NoReturn:
        """Raises InvalidRequestError: set the watermark on a DataFrame."""
        raise _unsupported("for_bounded_out_of_orderness()")


def _unsupported(method: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"WatermarkStrategy.{method} is not supported: use "
        "env.from_dataframe(dataframe.withWatermark(column, delay))",
        reason=Reason.UNSUPPORTED,
    )
