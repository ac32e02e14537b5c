"""`python -m benchmarks.query`: queries, ours beside Flink and redis in the same run.

Each peer holds the same keys and values; so many awaits are in flight in one asyncio process on
uvloop, for Flink in one JVM with its own client, while another process writes to the peer that is
asked. State servers, coordinator, proxy, Flink and redis are processes of their own. Every answer
is checked while it is measured, and at the end every value. The peers alternate within each round.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import os
import sys
from typing import TYPE_CHECKING

from benchmarks.arguments import EXPERIMENTS, add_common_arguments, chosen, write_run
from benchmarks.machine import Machine, NoiseMeter
from benchmarks.query.dataset import Dataset
from benchmarks.query.question import Question

if TYPE_CHECKING:
    from benchmarks.query.feeding import Feeding
    from benchmarks.query.measuring import Plan
    from benchmarks.query.unary import UnaryFigures

PEERS = (
    *("heap", "rocksdb", "proxy", "split"),
    *("flink-heap", "flink-rocksdb"),
    *("redis", "redis-16", "redis-64"),
)
OPEN = "open"
UNARY = "unary"
PARTS = (*Question, OPEN, UNARY)
REFERENCES = ("Flink, heap", "Flink, RocksDB", "redis-py asyncio")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.query", description=__doc__)
    parser.add_argument("--keys", type=int, default=100_000, help="at most 100,000")
    parser.add_argument("--in-flight", default="1,4,16,64,256,1024", help="awaits, comma-separated")
    parser.add_argument("--warm-up", type=float, default=1.0, help="seconds before each loop")
    parser.add_argument("--jvm-warm-up", type=float, default=20.0, help="seconds, of each Flink")
    parser.add_argument("--updates-per-second", type=int, default=5_000)
    parser.add_argument("--peers", default=",".join(PEERS), help="some of: %(default)s")
    parser.add_argument("--parts", default=",".join(PARTS), help="some of: %(default)s")
    add_common_arguments(
        parser,
        rounds="of all loops",
        seconds=(2.5, "of each loop, after warm-up"),
        quick="10,000 keys, one short round",
    )
    options = parser.parse_args()
    if options.quick:
        options.keys, options.rounds, options.seconds, options.warm_up = 10_000, 1, 0.5, 0.3
        options.in_flight, options.jvm_warm_up = "1,64,1024", 2.0
    peers = chosen(parser, options.peers, PEERS, "peer")
    parts = chosen(parser, options.parts, PARTS, "part")
    if not 100 <= options.keys <= 100_000:
        parser.error("--keys is 100 to 100,000")

    # Before the first import of gRPC, in this process and in those it starts.
    os.environ.setdefault("GRPC_EXPERIMENTS", EXPERIMENTS)
    import uvloop

    from benchmarks.query.feeder import updates_per_interval
    from benchmarks.query.measuring import Plan

    in_flight = {
        Question.HITS: tuple(int(count) for count in options.in_flight.split(",")),
        Question.MISSES: (64,) if options.quick else (1, 64),
        Question.HUNDREDS: (4,) if options.quick else (1, 4, 16),
    }
    plan = Plan(
        in_flight={question: in_flight[question] for question in Question if question in parts},
        open_loops=OPEN in parts,
        rate_resolution=2.0 if options.quick else 1.1,
        rounds=options.rounds,
        seconds=options.seconds,
        warm_up_s=options.warm_up,
        updates=updates_per_interval(options.updates_per_second),
    )
    return uvloop.run(run(options, peers, plan, unary=UNARY in parts))


async def run(options: argparse.Namespace, names: list[str], plan: Plan, *, unary: bool) -> int:
    """Starts the peers, measures, prints, writes."""
    from benchmarks.query.lineup import OPEN_LOOPED, TITLES, Lineup
    from benchmarks.query.measuring import measure
    from benchmarks.query.report import report, to_json
    from benchmarks.query.unary import unary_report

    gc.set_threshold(100_000, 50, 1000)
    machine, meter = Machine.here(), NoiseMeter()
    dataset = Dataset(options.keys)
    async with contextlib.AsyncExitStack() as stack:
        lineup = Lineup(stack, dataset, options.updates_per_second)
        await lineup.add(names, jvm_warm_up_s=options.jvm_warm_up)
        for remark in lineup.remarks:
            print(remark, file=sys.stderr)
        open_looped = [TITLES[name] for name in OPEN_LOOPED]
        samples = await measure(lineup.measured, open_looped, dataset, plan)
        figures = to_json(samples)
        texts = [report(samples, [one.asking.name for one in lineup.measured], REFERENCES)]
        if unary and lineup.owner is not None:
            called, missing = await _unary(lineup.owner, dataset, plan)
            figures = {**figures, "unary": [one.to_json() for one in called]}
            texts.append("\n\n".join([unary_report(called), *missing]))
    print("\n".join([*machine.lines(), meter.line(), *lineup.remarks]))
    print(
        f"{options.keys:,} string keys, values of 8 to 50 bytes, {options.updates_per_second:,} "
        f"updates/s meanwhile; {plan.rounds} rounds of {plan.seconds:g} s, every answer right\n"
    )
    print("\n\n".join(texts))
    write_run(options, machine, meter, figures)
    return 0


async def _unary(
    feeding: Feeding, dataset: Dataset, plan: Plan
) -> tuple[list[UnaryFigures], list[str]]:
    """What each client measures, and which one is missing and why."""
    from benchmarks.query import go_asking
    from benchmarks.query.measuring import fed_and_frozen
    from benchmarks.query.unary import measure_unary
    from benchmarks.query.unary_clients import GoClient, PythonClient, UnaryKeys

    about = feeding.description
    asked = about["proxies"][0], UnaryKeys(about["job_id"], dataset), dataset.order()
    missing = await asyncio.to_thread(go_asking.build)
    called = []
    for kind in (PythonClient, GoClient)[: 1 if missing else 2]:
        async with kind(*asked) as client, fed_and_frozen(feeding):
            called.append(
                await measure_unary(client, warm_up_s=plan.warm_up_s, seconds=plan.seconds)
            )
    return called, [missing] if missing else []


if __name__ == "__main__":
    sys.exit(main())
