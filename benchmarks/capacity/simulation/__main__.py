"""`python -m benchmarks.capacity.simulation`: the real coordinator under many state servers.

The servers hold no state and share one process. They register, renew leases, begin batches and
receive commits as real ones do, each over connections of its own. Each task runs on a random
server, as Spark places tasks, and requests its owner there.
"""

from __future__ import annotations

import argparse
import os
import sys

from benchmarks.arguments import EXPERIMENTS, add_common_arguments, write_run
from benchmarks.gc_modes import collecting
from benchmarks.machine import Machine, NoiseMeter
from benchmarks.signals import run_async

QUICK = 50


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.capacity.simulation", description=__doc__
    )
    parser.add_argument("--servers", type=int, default=1000)
    parser.add_argument("--subtasks", type=int, default=4000)
    parser.add_argument("--key-groups", type=int, default=32767)
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--idle-s", type=float, default=10.0, help="seconds of heartbeats alone")
    add_common_arguments(parser, quick="50 servers, 200 subtasks")
    options = parser.parse_args()
    if options.quick:
        options.servers, options.subtasks, options.idle_s = QUICK, 4 * QUICK, 2.0

    # Before the first import of gRPC, in this process and its children.
    os.environ.setdefault("GRPC_EXPERIMENTS", EXPERIMENTS)
    return run_async(run(options))


async def run(options: argparse.Namespace) -> int:
    """Runs every phase, prints and writes the figures."""
    from benchmarks.capacity.simulation.driver import driver
    from benchmarks.capacity.simulation.fleet import Fleet, Phase
    from benchmarks.capacity.simulation.report import report, to_json

    machine, meter = Machine.here(), NoiseMeter()
    phases: list[Phase] = []

    def record(*more: Phase) -> None:
        for phase in more:
            print(
                f"{phase.title}: {phase.seconds:.2f} s, coordinator {phase.coordinator_cpu_s:.2f} "
                f"CPU s, {phase.calls} calls, {phase.wire_bytes} bytes",
                file=sys.stderr,
                flush=True,
            )
        phases.extend(more)

    # Nothing else runs on the event loop while the driver starts and ends.
    with collecting(), driver(options.servers) as handle:
        fleet = Fleet(
            handle,
            servers=options.servers,
            subtasks=options.subtasks,
            key_groups=options.key_groups,
        )
        async with fleet:
            record(await fleet.register())
            record(*await fleet.run_batch("first batch"))
            for number in range(options.batches):
                record(*await fleet.run_batch(f"batch {number + 1}"))
            record(await fleet.idle(options.idle_s))
            record(await fleet.locate("location, first request"))
            record(await fleet.locate("location, unchanged"))
            for lost in (1, options.servers // 100, options.servers // 10):
                if lost:
                    record(await fleet.lose(lost))
            rss = fleet.rss_bytes()
    print("\n".join([*machine.lines(), meter.line()]))
    print()
    print(report(phases, options.servers, options.subtasks, options.key_groups, rss))
    figures = {"coordinator_rss_bytes": rss, "phases": to_json(phases)}
    write_run(options, machine, meter, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
