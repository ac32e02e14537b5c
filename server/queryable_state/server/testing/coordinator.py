"""A coordinator inside the test's process, on an engine in memory."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.server.coordinator.coordinator import Coordinator
from queryable_state.server.settings import CoordinatorSettings
from queryable_state.server.testing.engine import InMemoryEngine

if TYPE_CHECKING:
    from collections.abc import Iterator

_STEP_MS = 200


class FakeClock:
    """Milliseconds that pass only when told to."""

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
        """What every call must present."""
        return self.coordinator.secret

    def advance(self, ms: int) -> None:
        """Lets the fake clock pass, in steps: a leap would be taken for a stalled process."""
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
    """Starts a coordinator on a free port of the loopback address, and closes it after.

    With a `clock`, leases follow that one instead of the real time.
    """
    engine = engine or InMemoryEngine()
    settings = settings or CoordinatorSettings(strict=False, ports="0", stop_timeout_s=2.0)
    if clock is None:
        coordinator = Coordinator(engine, settings)
    else:
        coordinator = Coordinator(engine, settings, clock_ms=clock)
    with coordinator:
        yield InProcessCoordinator(coordinator, engine, clock)
