"""The time of drivers and servers of the model."""

from __future__ import annotations


class Clock:
    """The time of drivers and servers alike; it passes only when told to."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
