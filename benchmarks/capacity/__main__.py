"""`python -m benchmarks.capacity`: memory and look-up latency of 100,000 keys and more.

The tasks of a job fill a state server in a process of its own. Once the server is idle, a client
looks up random keys. Every answer is checked.
"""

from __future__ import annotations

import argparse
import os
import sys

from benchmarks.arguments import EXPERIMENTS, add_common_arguments, chosen, write_run
from benchmarks.machine import Machine, NoiseMeter
from benchmarks.signals import run_async

BACKENDS = ("heap", "rocksdb")
SIZES = (100_000, 1_000_000)
LONG = 10_000_000
BIG_BATCH = 1_000_000
"""The largest size up to this also rewrites all keys in one batch."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.capacity", description=__doc__)
    parser.add_argument("--backends", default=",".join(BACKENDS), help="some of: %(default)s")
    parser.add_argument("--keys", help="comma-separated; 100000,1000000 unless given")
    parser.add_argument(
        "--long", action="store_true", help="also 10,000,000 keys; about 15 minutes"
    )
    add_common_arguments(
        parser,
        rounds="of all loops",
        seconds=(3.0, "of each loop, after warm-up"),
        quick="100,000 keys, one short round",
    )
    options = parser.parse_args()
    sizes = tuple(map(int, options.keys.split(","))) if options.keys else SIZES
    if options.long:
        sizes = (*sizes, LONG)
    if options.quick:
        sizes, options.rounds, options.seconds = SIZES[:1], 1, 0.5
    backends = chosen(parser, options.backends, BACKENDS, "backend")

    # Before the first import of gRPC, in this process and its children.
    os.environ.setdefault("GRPC_EXPERIMENTS", EXPERIMENTS)
    return run_async(run(options, backends, sizes))


async def run(options: argparse.Namespace, backends: list[str], sizes: tuple[int, ...]) -> int:
    """Measures, prints and writes the figures."""
    from benchmarks.capacity.measuring import measure
    from benchmarks.capacity.report import report, to_json

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
    write_run(options, machine, meter, {"rows": to_json(rows)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
