"""`python -m benchmarks.capacity.simulation`: the real coordinator under many state servers.

The servers hold nothing and share one process, but register, renew leases, begin batches and hear
of commits as real ones do, each over connections of its own. Each task asks for its owner on a
server by chance, as Spark places tasks.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import sys

from benchmarks.arguments import EXPERIMENTS, add_common_arguments, write_run
from benchmarks.machine import Machine, NoiseMeter

QUICK = 50


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.capacity.simulation", description=__doc__
    )
    parser.add_argument("--servers", type=int, default=1000)
    parser.add_argument("--subtasks", type=int, default=4000)
    parser.add_argument("--key-groups", type=int, default=32767)
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--idle-s", type=float, default=10.0, help="of heartbeats alone")
    add_common_arguments(parser, quick="50 servers, 200 subtasks")
    options = parser.parse_args()
    if options.quick:
        options.servers, options.subtasks, options.idle_s = QUICK, 4 * QUICK, 2.0

    # Before the first import of gRPC, in this process and in those it starts.
    os.environ.setdefault("GRPC_EXPERIMENTS", EXPERIMENTS)
    import uvloop

    return uvloop.run(run(options))


async def run(options: argparse.Namespace) -> int:
    """Runs every phase, prints, writes."""
    from benchmarks.capacity.simulation.driver import driver
    from benchmarks.capacity.simulation.fleet import Fleet, Phase
    from benchmarks.capacity.simulation.report import report, to_json

    gc.set_threshold(100_000, 50, 1000)
    machine, meter = Machine.here(), NoiseMeter()
    starting = driver(options.servers)
    driving = await asyncio.to_thread(starting.__enter__)
    phases: list[Phase] = []

    def took(*more: Phase) -> None:
        for phase in more:
            print(
                f"{phase.what}: {phase.seconds:.2f} s, coordinator {phase.coordinator_cpu_s:.2f} "
                f"CPU s, {phase.calls} calls, {phase.wire_bytes} bytes",
                file=sys.stderr,
                flush=True,
            )
        phases.extend(more)

    try:
        fleet = Fleet(
            driving,
            servers=options.servers,
            subtasks=options.subtasks,
            key_groups=options.key_groups,
        )
        async with fleet:
            took(await fleet.register())
            took(*await fleet.run_batch("first batch"))
            for number in range(options.batches):
                took(*await fleet.run_batch(f"batch {number + 1}"))
            took(await fleet.idle(options.idle_s))
            took(await fleet.locate("location, first"))
            took(await fleet.locate("location, unchanged"))
            for lost in (1, options.servers // 100, options.servers // 10):
                if lost:
                    took(await fleet.lose(lost))
            rss = fleet.rss_bytes()
    finally:
        await asyncio.to_thread(starting.__exit__, None, None, None)
    print("\n".join([*machine.lines(), meter.line()]))
    print()
    print(report(phases, options.servers, options.subtasks, options.key_groups, rss))
    figures = {"coordinator_rss_bytes": rss, "phases": to_json(phases)}
    write_run(options, machine, meter, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
