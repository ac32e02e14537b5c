"""What clients cause is logged once in a while, and counted."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from queryable_state.server.process.rate_limited_log import RateLimitedLog

if TYPE_CHECKING:
    import pytest


def test_a_cause_is_logged_once_a_period_with_a_count_of_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now_s = 0.0
    log = RateLimitedLog(logging.getLogger("t"), every_s=10, clock=lambda: now_s)
    for _ in range(1000):
        log.write(logging.WARNING, "garbage", "refused: %s", "bytes")
    log.write(logging.WARNING, "silence", "nothing came")
    assert caplog.messages == ["refused: bytes", "nothing came"]
    now_s = 10.0
    log.write(logging.WARNING, "garbage", "refused: %s", "more")
    assert caplog.messages[2:] == ["refused: more (and 999 more like it since the last such line)"]
