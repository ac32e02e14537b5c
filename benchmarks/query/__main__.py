"""`python -m benchmarks.query`: closed loops of queries, ours beside redis in the same run.

Each peer holds the same keys and values; so many awaits are in flight in one asyncio process on
uvloop, while another process writes to the peer that is asked. State servers, coordinator, proxy
and redis are processes of their own. Every answer is checked while it is measured, and at the
end every value. The peers alternate within each round.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.figures import write_json
from benchmarks.machine import Machine, NoiseMeter
from benchmarks.query.dataset import Dataset

if TYPE_CHECKING:
    from benchmarks.query.measuring import Plan

EXPERIMENTS = "-event_engine_client,-event_engine_listener"
"""What our clients are advised to set before gRPC is imported; the servers do it themselves."""
PEERS = ("heap", "rocksdb", "proxy", "split", "redis", "redis-pool")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.query", description=__doc__)
    parser.add_argument("--keys", type=int, default=100_000, help="at most 100,000")
    parser.add_argument("--in-flight", default="1,4,16,64,256,1024", help="awaits, comma-separated")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.5, help="of each loop, after warm-up")
    parser.add_argument("--warm-up", type=float, default=1.0, help="seconds before each loop")
    parser.add_argument("--updates-per-second", type=int, default=5_000)
    parser.add_argument("--peers", default=",".join(PEERS), help="some of: %(default)s")
    parser.add_argument("--json", type=Path, help="file for all figures")
    parser.add_argument("--quick", action="store_true", help="10,000 keys, one short round")
    options = parser.parse_args()
    if options.quick:
        options.keys, options.rounds, options.seconds, options.warm_up = 10_000, 1, 0.5, 0.3
    peers = options.peers.split(",")
    if unknown := set(peers) - set(PEERS):
        parser.error(f"no such peer: {', '.join(sorted(unknown))}")
    if not 100 <= options.keys <= 100_000:
        parser.error("--keys is 100 to 100,000")

    # Before the first import of gRPC, in this process and in those it starts.
    os.environ.setdefault("GRPC_EXPERIMENTS", EXPERIMENTS)
    import uvloop

    from benchmarks.query.feeder import updates_per_interval
    from benchmarks.query.measuring import Plan

    plan = Plan(
        in_flight=tuple(int(count) for count in options.in_flight.split(",")),
        many_in_flight=(1, 4, 16),
        rounds=options.rounds,
        seconds=options.seconds,
        warm_up_s=options.warm_up,
        updates=updates_per_interval(options.updates_per_second),
    )
    return uvloop.run(run(options, peers, plan))


async def run(options: argparse.Namespace, names: list[str], plan: Plan) -> int:
    """Starts the peers, measures, prints, writes."""
    from benchmarks.query.lineup import lineup
    from benchmarks.query.measuring import measure
    from benchmarks.query.report import report, to_json

    gc.set_threshold(100_000, 50, 1000)
    machine, meter = Machine.here(), NoiseMeter()
    dataset = Dataset(options.keys)
    async with contextlib.AsyncExitStack() as stack:
        measured, remarks = await lineup(stack, names, dataset, options.updates_per_second)
        for remark in remarks:
            print(remark, file=sys.stderr)
        samples = await measure(measured, dataset, plan)
    order = [one.peer.name for one in measured]
    print("\n".join([*machine.lines(), meter.line(), *remarks]))
    print(
        f"{options.keys:,} string keys, values of 8 to 50 bytes, {options.updates_per_second:,} "
        f"updates/s meanwhile; {plan.rounds} rounds of {plan.seconds:g} s, every answer right\n"
    )
    print(report(samples, order, "redis-py asyncio"))
    if options.json:
        write_json(
            options.json,
            {
                "machine": machine.to_json(),
                "noise": meter.note(),
                "options": {name: str(value) for name, value in vars(options).items()},
                "loops": to_json(samples),
            },
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
