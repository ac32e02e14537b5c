"""Coordinator in the test's process, on a stream engine in memory."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.server.coordinator.coordinator import Coordinator
from queryable_state.server.coordinator.settings import CoordinatorSettings
from queryable_state.server.testing.engine import InMemoryEngine

if TYPE_CHECKING:
    from collections.abc import Iterator

_STEP_MS = 200


class FakeClock:
    """A clock in milliseconds that only a test advances."""

    def __init__(self, now_ms: int = 1_000_000) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


@dataclass(frozen=True)
class InProcessCoordinator:
    """A started coordinator and the engine it watches."""

    coordinator: Coordinator
    engine: InMemoryEngine
    clock: FakeClock | None

    @property
    def address(self) -> str:
        """HOST:PORT of the coordinator."""
        return self.coordinator.address

    @property
    def secret(self) -> str:
        """The secret that every call must present."""
        return self.coordinator.secret

    def advance(self, ms: int) -> None:
        """Advances the fake clock in steps; a leap would look like a stalled process."""
        if self.clock is None:
            raise ValueError("this coordinator runs on the real clock")
        while ms > 0:
            self.clock.now_ms += min(ms, _STEP_MS)
            ms -= _STEP_MS
            self.coordinator.tick()


@contextmanager
def in_process_coordinator(
    *,
    engine: InMemoryEngine | None = None,
    settings: CoordinatorSettings | None = None,
    clock: FakeClock | None = None,
) -> Iterator[InProcessCoordinator]:
    """Runs a coordinator on a free port of the loopback address for the block.

    With a `clock`, leases follow it instead of the real time.
    """
    engine = engine or InMemoryEngine()
    settings = settings or CoordinatorSettings(strict=False, ports="0", stop_timeout_s=2.0)
    if clock is None:
        coordinator = Coordinator(engine, settings)
    else:
        coordinator = Coordinator(engine, settings, clock_ms=clock)
    with coordinator:
        yield InProcessCoordinator(coordinator, engine, clock)
