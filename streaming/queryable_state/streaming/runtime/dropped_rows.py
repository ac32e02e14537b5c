"""The log line about late rows that an operator drops."""

from __future__ import annotations

import logging
from typing import Final

from queryable_state.server.process.rate_limited_log import RateLimitedLog

_log: Final = RateLimitedLog(logging.getLogger(__name__), every_s=60.0)


def log_dropped(dropped: int, uid: str, where: str) -> None:
    """Logs how many late rows a task has dropped, if any, at most once a minute for each worker and
    operator."""
    if dropped:
        _log.write(
            logging.WARNING,
            uid,
            "%s: dropped %d rows whose windows the watermark has passed; to keep them, set a "
            "greater delay of the watermark, allowed_lateness or side_output_late_data",
            where,
            dropped,
        )
