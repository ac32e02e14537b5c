"""`python -m benchmarks.query`: look-ups beside Flink, redis-py and valkey-glide in the same run.

Each peer holds the same keys and values. One asyncio process on uvloop is the client (for Flink a
JVM with Flink's own client); a feeder process writes to the measured peer at the same time. State
servers, coordinator, proxy, Flink and redis are processes of their own. Every answer is checked,
and at the end every value. The peers alternate within each round.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any

from benchmarks.arguments import EXPERIMENTS, add_common_arguments, chosen, write_run
from benchmarks.machine import Machine, NoiseMeter
from benchmarks.query.dataset import Dataset
from benchmarks.signals import run_async

if TYPE_CHECKING:
    from benchmarks.query.clients.unary import UnaryClient, UnaryFigures
    from benchmarks.query.feeding.feeder import FeederProcess
    from benchmarks.query.measuring import Plan

PEERS = (
    *("heap", "rocksdb", "token", "tls", "proxy", "proxy-tls", "split"),
    *("default-gc", "large-commits", "spark"),
    *("flink-heap", "flink-rocksdb"),
    *("redis", "valkey"),
)
OPEN = "open"
UNARY = "unary"
PARTS = ("hits", "misses", "hundreds", OPEN, UNARY)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.query", description=__doc__)
    parser.add_argument("--keys", type=int, default=100_000, help="at most 100,000")
    parser.add_argument("--in-flight", default="1,4,16,64,256,1024", help="comma-separated")
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

    # Before the first import of gRPC, in this process and its children.
    os.environ.setdefault("GRPC_EXPERIMENTS", EXPERIMENTS)
    from benchmarks.query.clients.load_generator import Operation
    from benchmarks.query.measuring import Plan

    in_flight = {
        Operation.HITS: tuple(int(count) for count in options.in_flight.split(",")),
        Operation.MISSES: (64,) if options.quick else (1, 64),
        Operation.HUNDREDS: (4,) if options.quick else (1, 4, 16),
    }
    plan = Plan(
        in_flight={
            operation: in_flight[operation] for operation in Operation if operation in parts
        },
        open_loops=OPEN in parts,
        rate_resolution=2.0 if options.quick else 1.1,
        rounds=options.rounds,
        seconds=options.seconds,
        warm_up_s=options.warm_up,
    )
    return run_async(run(options, peers, plan, unary=UNARY in parts))


async def run(options: argparse.Namespace, names: list[str], plan: Plan, *, unary: bool) -> int:
    """Starts the peers, measures, prints and writes the figures."""
    from benchmarks.query.clients.unary import unary_report
    from benchmarks.query.lineup import REFERENCES, Lineup
    from benchmarks.query.measuring import measure
    from benchmarks.query.report import report, to_json

    machine, meter = Machine.here(), NoiseMeter()
    dataset = Dataset(options.keys)
    async with contextlib.AsyncExitStack() as stack:
        lineup = Lineup(stack, dataset, options.updates_per_second)
        await lineup.add(names, jvm_warm_up_s=options.jvm_warm_up)
        for remark in lineup.remarks:
            print(remark, file=sys.stderr)
        samples = await measure(lineup.peers, lineup.open_loop_peers, dataset, plan)
        closed = [peer.generator.name for peer in lineup.peers]
        searched = [peer.generator.name for peer in lineup.open_loop_peers]
        figures = to_json(samples)
        texts = [report(samples, closed, searched, REFERENCES)]
        if unary and lineup.owner is not None:
            measured, missing = await _unary(lineup.owner, lineup.secured_owner, dataset, plan)
            figures = {**figures, "unary": [each.to_json() for each in measured]}
            texts.append("\n\n".join([unary_report(measured), *missing]))
    print("\n".join([*machine.lines(), meter.line(), *lineup.remarks]))
    print(
        f"{options.keys:,} string keys, values of 8 to 50 bytes; {plan.rounds} rounds of "
        f"{plan.seconds:g} s; every answer was right\n"
    )
    print("\n".join([*lineup.feeder_remarks(), ""]))
    print("\n\n".join(texts))
    write_run(options, machine, meter, {**figures, "peers": lineup.feeder_remarks()})
    return 0


async def _unary(
    feeder: FeederProcess, secured: FeederProcess | None, dataset: Dataset, plan: Plan
) -> tuple[list[UnaryFigures], list[str]]:
    """The figures of each client, and why a client is missing."""
    from benchmarks.query.clients import go_client
    from benchmarks.query.clients.unary import (
        PythonClient,
        UnaryFigures,
        UnaryKeys,
        measure_unary,
    )
    from benchmarks.query.measuring import under_updates
    from queryable_state.client import Tls
    from queryable_state.wire.security.connector import Connector

    missing = await asyncio.to_thread(go_client.build)
    order, keys = dataset.order(), UnaryKeys(feeder.description["job_id"], dataset)
    address = feeder.description["proxies"][0]
    peers: list[tuple[FeederProcess, UnaryClient]] = []
    async with contextlib.AsyncExitStack() as stack:
        for kind in (PythonClient, go_client.GoClient)[: 1 if missing else 2]:
            started: Any = kind(address, keys, order)
            peers.append((feeder, await stack.enter_async_context(started)))
        if secured is not None:
            server = secured.description
            connector = Connector(Tls(ca=server["ca"]))
            own_keys = UnaryKeys(server["job_id"], dataset)
            python = PythonClient(server["proxies"][0], own_keys, order, connector)
            peers.append((secured, await stack.enter_async_context(python)))
        rounds: dict[str, list[UnaryFigures]] = {client.name: [] for _, client in peers}
        for number in range(plan.rounds):
            for owner, client in peers if number % 2 == 0 else reversed(peers):
                async with under_updates(owner):
                    figures = await measure_unary(
                        client, warm_up_s=plan.warm_up_s, seconds=plan.seconds
                    )
                rounds[client.name].append(figures)
    measured = [UnaryFigures.median(each) for each in rounds.values()]
    return measured, [missing] if missing else []


if __name__ == "__main__":
    sys.exit(main())
