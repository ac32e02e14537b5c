"""Savepoints, as a test triggers them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.coordinator.writers import WritingDriver


LONG_S = 10.0


def trigger(
    job: WritingDriver, directory: object, *, name: str = "job", stop: bool = False
) -> tuple[str, int]:
    return job.coordinator.trigger_savepoint(name, str(directory), stop=stop, timeout_s=LONG_S)
