"""`python -m benchmarks.capacity`: what keys cost, from 100,000 on, in memory and in time.

A state server of its own process is filled by a job's tasks, comes to rest, and is asked for
keys at random. Every answer is checked.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from pathlib import Path

from benchmarks.figures import write_json
from benchmarks.machine import Machine, NoiseMeter
from benchmarks.query.__main__ import EXPERIMENTS

BACKENDS = ("heap", "rocksdb")
SIZES = (100_000, 1_000_000)
LONG = 10_000_000
BIG_BATCH = 1_000_000
"""The most keys that are also written by one batch, by the largest size up to this."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.capacity", description=__doc__)
    parser.add_argument("--backends", default=",".join(BACKENDS), help="some of: %(default)s")
    parser.add_argument("--keys", help="comma-separated; 100000,1000000 unless given")
    parser.add_argument("--long", action="store_true", help="also 10,000,000 keys; some 15 minutes")
    parser.add_argument("--quick", action="store_true", help="100,000 keys, one short round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each loop, after warm-up")
    parser.add_argument("--json", type=Path, help="file for all figures")
    options = parser.parse_args()
    sizes = tuple(map(int, options.keys.split(","))) if options.keys else SIZES
    if options.long:
        sizes = (*sizes, LONG)
    if options.quick:
        sizes, options.rounds, options.seconds = SIZES[:1], 1, 0.5
    backends = options.backends.split(",")
    if unknown := set(backends) - set(BACKENDS):
        parser.error(f"no such backend: {', '.join(sorted(unknown))}")

    # Before the first import of gRPC, in this process and in those it starts.
    os.environ.setdefault("GRPC_EXPERIMENTS", EXPERIMENTS)
    import uvloop

    return uvloop.run(run(options, backends, sizes))


async def run(options: argparse.Namespace, backends: list[str], sizes: tuple[int, ...]) -> int:
    """Measures, prints, writes."""
    from benchmarks.capacity.measuring import measure
    from benchmarks.capacity.report import report, to_json

    gc.set_threshold(100_000, 50, 1000)
    machine, meter = Machine.here(), NoiseMeter()
    rows = [
        await measure(
            backend,  # type: ignore[arg-type] # is one of BACKENDS
            keys,
            seconds=options.seconds,
            rounds=options.rounds,
            big_batch=keys == max((size for size in sizes if size <= BIG_BATCH), default=0),
        )
        for backend in backends
        for keys in sizes
    ]
    print("\n".join([*machine.lines(), meter.line()]))
    print()
    print(report(rows))
    if options.json:
        write_json(
            options.json,
            {
                "machine": machine.to_json(),
                "noise": meter.note(),
                "options": {name: str(value) for name, value in vars(options).items()},
                "rows": to_json(rows),
            },
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
