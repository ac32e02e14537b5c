"""Waiting for what happens on other threads and processes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def until(condition: Callable[[], object], timeout_s: float = 30.0) -> None:
    """Returns once the condition holds; fails the test after the time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.02)
