"""Memory of the processes of a run over its time."""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benchmarks.mixed.cpu_by_part import PARTS, rss_by_part

if TYPE_CHECKING:
    from collections.abc import Mapping

GROWTH_FROM_S = 30.0
"""Memory that is in use by then is needed."""
_OURS = ("state server", "web process", "driver's Python")
"""The parts that may not grow. Those of Spark fill their heaps as they like."""
_NOISE_BYTES = 4 << 20
_NOISE_SHARE = 0.03
_EVERY_S = 1.0
_SPAN_S = 5.0
"""A figure is the median over this time."""


@dataclass
class Memory:
    """RSS by part, each second."""

    mark: str
    samples: list[tuple[float, Mapping[str, float]]] = field(default_factory=list)

    async def watch(self) -> None:
        """Adds samples until it is cancelled."""
        began = time.monotonic()
        while True:
            found = await asyncio.to_thread(rss_by_part, self.mark)
            self.samples.append((time.monotonic() - began, found))
            await asyncio.sleep(_EVERY_S)

    def at(self, seconds: float, part: str) -> float:
        """Bytes of a part in the seconds before a time."""
        span = [rss[part] for at, rss in self.samples if seconds - _SPAN_S <= at <= seconds]
        return statistics.median(span)

    def lines(self) -> list[str]:
        """Each part at the end of the first half minute and at the end, in MiB."""
        last = self.samples[-1][0]
        return [
            f"{part}: {self.at(GROWTH_FROM_S, part) / 2**20:.0f} MiB after "
            f"{GROWTH_FROM_S:g} s, {self.at(last, part) / 2**20:.0f} MiB after {last:.0f} s"
            for part in PARTS
            if part in self.samples[-1][1]
        ]

    def grown(self) -> list[str]:
        """A line for each of our parts that has grown by more than noise."""
        last = self.samples[-1][0]
        found = []
        for part in _OURS:
            before, after = self.at(GROWTH_FROM_S, part), self.at(last, part)
            if after > before * (1 + _NOISE_SHARE) + _NOISE_BYTES:
                found.append(f"GROWN: {part} from {before / 2**20:.0f} to {after / 2**20:.0f} MiB")
        return found
