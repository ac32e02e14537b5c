"""Tables and JSON of `python -m benchmarks.query`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.figures import Spread, ratio, table, thousands
from benchmarks.query.clients.load_generator import Operation
from benchmarks.query.dataset import BATCH_KEYS
from benchmarks.query.measuring import HELD_P99_US

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.closed_loop import LoopSample
    from benchmarks.query.measuring import Samples

    Loops = dict[tuple[str, int], list[LoopSample]]

TITLES = {
    Operation.HITS: "single keys",
    Operation.MISSES: "missing keys",
    Operation.HUNDREDS: f"answers of {BATCH_KEYS} keys",
}


def report(
    samples: Samples, names: Sequence[str], searched: Sequence[str], references: Sequence[str]
) -> str:
    """Rates, latencies and CPU of the peers, and ratios to the reference peers of this run.

    `names` are the peers of the closed loops, `searched` those of the open loops.
    """
    parts: list[str] = []
    for operation, loops in samples.closed.items():
        title = TITLES[operation]
        measured = [name for name in names if any(name == peer for peer, _ in loops)]
        parts += [f"Keys a second (median of rounds), {title}:", _table(loops, measured, _rate)]
        if operation is Operation.HITS:
            parts += ["Lowest to highest round:", _table(loops, measured, _range)]
        parts += [f"p50 / p99 in us, {title}:", _table(loops, measured, _latency)]
        if operation is Operation.HITS:
            parts += ["p99.9 in us:", _table(loops, measured, _tail)]
            parts += ["CPU of the client process in us a key:", _table(loops, measured, _cpu)]
        for reference in references:
            if reference in measured:
                parts += [f"Keys a second against {reference}, {title}:"]
                parts += [_against(loops, measured, reference, _median_rate)]
            if reference in measured and operation is Operation.HITS:
                parts += [f"p99 against {reference} (lower is better), {title}:"]
                parts += [_against(loops, measured, reference, _median_p99)]
    if Operation.MISSES in samples.closed and Operation.HITS in samples.closed:
        parts += ["Misses a second against hits a second:", _misses_against_hits(samples, names)]
    if samples.highest_rate:
        limit = f"{HELD_P99_US / 1000:g} ms"
        parts += [f"Open loop: highest rate held at a p99 under {limit}:", _held(samples, searched)]
    return "\n\n".join(parts)


def to_json(samples: Samples) -> dict[str, object]:
    """Every loop of the run as JSON."""
    return {
        "loops": [
            {"peer": peer, "operation": operation, "in_flight": in_flight, **vars(sample)}
            for operation, loops in samples.closed.items()
            for (peer, in_flight), taken in loops.items()
            for sample in taken
        ],
        "open_loops": [
            {"peer": peer, **vars(sample)}
            for peer, taken in samples.open.items()
            for sample in taken
        ],
        "highest_rates": dict(samples.highest_rate),
    }


def _median_rate(taken: Sequence[LoopSample]) -> float:
    return Spread.of([sample.per_second for sample in taken]).median


def _median_p99(taken: Sequence[LoopSample]) -> float:
    return Spread.of([sample.p99_us for sample in taken]).median


def _rate(taken: Sequence[LoopSample]) -> str:
    return thousands(_median_rate(taken))


def _range(taken: Sequence[LoopSample]) -> str:
    spread = Spread.of([sample.per_second for sample in taken])
    return f"{thousands(spread.lowest)}-{thousands(spread.highest)}"


def _latency(taken: Sequence[LoopSample]) -> str:
    p50 = Spread.of([sample.p50_us for sample in taken]).median
    return f"{p50:.0f}/{_median_p99(taken):.0f}"


def _tail(taken: Sequence[LoopSample]) -> str:
    return f"{Spread.of([sample.p999_us for sample in taken]).median:.0f}"


def _cpu(taken: Sequence[LoopSample]) -> str:
    return f"{Spread.of([sample.cpu_us for sample in taken]).median:.1f}"


def _columns(loops: Loops) -> list[int]:
    return sorted({in_flight for _, in_flight in loops})


def _table(loops: Loops, names: Sequence[str], cell: Callable[[Sequence[LoopSample]], str]) -> str:
    columns = _columns(loops)
    rows = [[name, *(cell(loops[name, n]) for n in columns)] for name in names]
    return table(["in flight", *map(str, columns)], rows)


def _against(
    loops: Loops,
    names: Sequence[str],
    reference: str,
    figure: Callable[[Sequence[LoopSample]], float],
) -> str:
    columns = _columns(loops)
    base = {n: figure(loops[reference, n]) for n in columns}
    rows = [
        [name, *(ratio(figure(loops[name, n]), base[n]) for n in columns)]
        for name in names
        if name != reference
    ]
    return table(["in flight", *map(str, columns)], rows)


def _misses_against_hits(samples: Samples, names: Sequence[str]) -> str:
    hits, misses = samples.closed[Operation.HITS], samples.closed[Operation.MISSES]
    columns = [n for n in _columns(misses) if n in _columns(hits)]
    rows = [
        [
            name,
            *(ratio(_median_rate(misses[name, n]), _median_rate(hits[name, n])) for n in columns),
        ]
        for name in names
        if all((name, n) in misses for n in columns)
    ]
    return table(["in flight", *map(str, columns)], rows)


def _held(samples: Samples, names: Sequence[str]) -> str:
    held = {
        name: Spread.of(samples.highest_rate[name])
        for name in names
        if samples.highest_rate.get(name)
    }
    best_pool = max(
        (spread.median for name, spread in held.items() if name.startswith("redis")), default=0.0
    )
    return table(
        ["peer", "median", "lowest-highest", "against the best redis-py pool"],
        [
            [
                name,
                f"{thousands(spread.median)}/s",
                f"{thousands(spread.lowest)}-{thousands(spread.highest)}",
                f"{spread.median / best_pool:.1f}" if best_pool else "",
            ]
            for name, spread in held.items()
        ],
    )
