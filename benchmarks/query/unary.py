"""Plain unary `GetKvState`, as other languages ask: a call a key, over one channel."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from benchmarks.figures import table, thousands

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.closed_loop import LoopSample
    from benchmarks.query.unary_clients import UnaryClient

IN_FLIGHT = (1, 16, 64, 256)
AT_ONCE = (1_000, 5_000)


@dataclass(frozen=True)
class UnaryFigures:
    """What one client measured at one server."""

    client: str
    loops: dict[int, LoopSample]
    """By calls in flight."""
    failures: dict[int, int]
    """Calls that failed or were answered wrong, by calls begun at once."""

    def to_json(self) -> dict[str, object]:
        """For machines."""
        loops = {str(count): asdict(sample) for count, sample in self.loops.items()}
        return {"client": self.client, "loops": loops, "failures": self.failures}


def unary_report(measured: Sequence[UnaryFigures]) -> str:
    """For people."""
    rows = [
        [
            figures.client,
            str(count),
            thousands(sample.per_second),
            f"{sample.p50_us:.0f}/{sample.p99_us:.0f}",
            f"{sample.cpu_us:.0f}",
        ]
        for figures in measured
        for count, sample in figures.loops.items()
    ]
    header = ["", "in flight", "calls/s", "p50 / p99 in us", "CPU of the client in us a call"]
    bursts = [
        f"{figures.client}, {count:,} calls at once: "
        + (f"{failures:,} failed." if failures else "every one answered, and right.")
        for figures in measured
        for count, failures in figures.failures.items()
    ]
    return "\n\n".join(
        [
            "Unary GetKvState with encoded keys, one call a key:",
            table(header, rows),
            "\n".join(bursts),
        ]
    )


async def measure_unary(
    client: UnaryClient,
    *,
    in_flight: Sequence[int] = IN_FLIGHT,
    at_once: Sequence[int] = AT_ONCE,
    warm_up_s: float,
    seconds: float,
) -> UnaryFigures:
    """Loops of calls, then many at once; raises at a loop's first failure or wrong answer."""
    loops = {
        count: await client.loop(count, warm_up_s=warm_up_s, seconds=seconds) for count in in_flight
    }
    failures = {count: await client.failures(count) for count in at_once}
    return UnaryFigures(client.name, loops, failures)
