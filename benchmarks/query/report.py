"""The tables of `python -m benchmarks.query`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.figures import Spread, table, thousands
from benchmarks.query.dataset import BATCH_KEYS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.closed_loop import LoopSample
    from benchmarks.query.measuring import Samples

FACTS_DIRECT = {1: 4_800, 4: 19_000, 16: 64_000, 64: 153_000, 256: 270_000, 1024: 532_000}
"""Keys a second of the prototype, direct to a RocksDB server, on two quiet CPUs."""


def report(samples: Samples, names: Sequence[str], reference: str) -> str:
    """Keys a second, latencies, and ratios to the reference peer where it was run."""
    parts = ["Keys a second (median of rounds), single keys:", _rates(samples.single, names)]
    parts += ["Lowest to highest round:", _ranges(samples.single, names)]
    parts += ["p50 / p99 in us, single keys:", _latencies(samples.single, names)]
    parts += ["CPU of the asking process in us a key:", _cpu(samples.single, names)]
    if reference in names:
        parts += [f"Against {reference}:", _ratios(samples.single, names, reference)]
    if samples.many:
        parts += [f"Keys a second, answers of {BATCH_KEYS} keys:", _rates(samples.many, names)]
        parts += [f"p50 / p99 in us, answers of {BATCH_KEYS} keys:"]
        parts += [_latencies(samples.many, names)]
        if reference in names:
            parts += [f"Against {reference}:", _ratios(samples.many, names, reference)]
    return "\n\n".join(parts)


def to_json(samples: Samples) -> list[dict[str, object]]:
    """Every loop of the run."""
    return [
        {"peer": peer, "in_flight": in_flight, "keys_an_answer": keys, **vars(sample)}
        for keys, loops in ((1, samples.single), (BATCH_KEYS, samples.many))
        for (peer, in_flight), taken in loops.items()
        for sample in taken
    ]


Loops = dict[tuple[str, int], list["LoopSample"]]


def _columns(loops: Loops) -> list[int]:
    return sorted({in_flight for _, in_flight in loops})


def _header(loops: Loops) -> list[str]:
    return ["in flight", *map(str, _columns(loops))]


def _rate(loops: Loops, name: str, in_flight: int) -> Spread:
    return Spread.of([sample.per_second for sample in loops[name, in_flight]])


def _rates(loops: Loops, names: Sequence[str]) -> str:
    return table(
        _header(loops),
        [
            [name, *(thousands(_rate(loops, name, n).median) for n in _columns(loops))]
            for name in names
        ],
    )


def _ranges(loops: Loops, names: Sequence[str]) -> str:
    def cell(spread: Spread) -> str:
        return f"{thousands(spread.lowest)}-{thousands(spread.highest)}"

    return table(
        _header(loops),
        [[name, *(cell(_rate(loops, name, n)) for n in _columns(loops))] for name in names],
    )


def _latencies(loops: Loops, names: Sequence[str]) -> str:
    def cell(taken: list[LoopSample]) -> str:
        p50 = Spread.of([sample.p50_us for sample in taken]).median
        p99 = Spread.of([sample.p99_us for sample in taken]).median
        return f"{p50:.0f}/{p99:.0f}"

    return table(
        _header(loops), [[name, *(cell(loops[name, n]) for n in _columns(loops))] for name in names]
    )


def _cpu(loops: Loops, names: Sequence[str]) -> str:
    def cell(taken: list[LoopSample]) -> str:
        return f"{Spread.of([sample.cpu_us for sample in taken]).median:.1f}"

    return table(
        _header(loops), [[name, *(cell(loops[name, n]) for n in _columns(loops))] for name in names]
    )


def _ratios(loops: Loops, names: Sequence[str], reference: str) -> str:
    def cell(name: str, in_flight: int) -> str:
        mine = _rate(loops, name, in_flight).median
        return f"{mine / _rate(loops, reference, in_flight).median:.2f}"

    rows = [
        [name, *(cell(name, n) for n in _columns(loops))] for name in names if name != reference
    ]
    return table(_header(loops), rows)
