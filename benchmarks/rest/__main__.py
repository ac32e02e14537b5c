"""Look-ups by REST and by unary gRPC, both in JSON, from the same stand-alone proxy.

A closed loop with 1 and 64 requests in flight; the two ways take turns within each round.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, NamedTuple

import aiohttp
import grpc.aio

from benchmarks.arguments import add_common_arguments, write_run
from benchmarks.closed_loop import LoopSample, closed_loop
from benchmarks.figures import Spread, table, thousands
from benchmarks.machine import Machine, NoiseMeter
from benchmarks.rest.cluster_process import KEYS, key, value
from benchmarks.rest.servers import servers
from benchmarks.signals import exit_on_signal
from queryable_state.v1 import query_pb2, query_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from benchmarks.rest.servers import Servers

    LookUp = Callable[[int], Awaitable[object]]

IN_FLIGHT = (1, 64)
WARM_UP_S = 1.0


class Measured(NamedTuple):
    """One closed loop, and the proxy's CPU time for each answer."""

    loop: LoopSample
    proxy_cpu_us: float


def by_rest(http: aiohttp.ClientSession) -> LookUp:
    """Look-ups of single keys by REST."""

    async def look_up(number: int) -> object:
        path = f"/api/v1/jobs/rest/states/last/value?key={key(number)}"
        async with http.get(path) as answer:
            return json.loads(await answer.read())["value"]

    return look_up


def by_grpc(channel: grpc.aio.Channel) -> LookUp:
    """The same by `GetKvState`, with key and value as JSON."""
    stub = query_pb2_grpc.QueryableStateStub(channel)

    async def look_up(number: int) -> object:
        request = query_pb2.GetKvStateRequest(
            job="rest", state_name="last", key_json=json.dumps(key(number))
        )
        return json.loads((await stub.GetKvState(request)).value_json)

    return look_up


async def measure(found: Servers, rounds: int, seconds: float) -> dict[str, list[Measured]]:
    """The loops by way and number in flight; the ways take turns."""
    order = random.Random(7).sample(range(KEYS), KEYS)
    samples: dict[str, list[Measured]] = {}
    connector = aiohttp.TCPConnector(limit=max(IN_FLIGHT))
    async with (
        aiohttp.ClientSession(found.web_address, connector=connector) as http,
        grpc.aio.insecure_channel(found.grpc_address) as channel,
    ):
        ways = {"REST": by_rest(http), "gRPC unary": by_grpc(channel)}
        for _ in range(rounds):
            for in_flight in IN_FLIGHT:
                for name, look_up in ways.items():
                    before = found.process.cpu_times()
                    loop = await closed_loop(
                        look_up,
                        lambda number, answer: answer == value(number),
                        order,
                        in_flight=in_flight,
                        warm_up_s=WARM_UP_S,
                        seconds=seconds,
                    )
                    after = found.process.cpu_times()
                    spent_s = after.user + after.system - before.user - before.system
                    answers = loop.answers * (1 + WARM_UP_S / seconds)
                    samples.setdefault(f"{name}, {in_flight} in flight", []).append(
                        Measured(loop, spent_s / answers * 1e6)
                    )
    return samples


def report(samples: dict[str, list[Measured]]) -> str:
    """The table: medians over the rounds."""
    rows = []
    for name, measured in samples.items():
        loops = [each.loop for each in measured]
        rows.append(
            [
                name,
                thousands(Spread.of([loop.per_second for loop in loops]).median),
                f"{Spread.of([loop.p50_us for loop in loops]).median / 1000:.2f}",
                f"{Spread.of([loop.p99_us for loop in loops]).median / 1000:.2f}",
                f"{Spread.of([each.proxy_cpu_us for each in measured]).median:.0f}",
            ]
        )
    return table(["", "look-ups/s", "p50 ms", "p99 ms", "CPU of the proxy µs"], rows)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rest", description=__doc__)
    add_common_arguments(
        parser,
        quick="one round of 1 s",
        rounds="rounds, each with every way (default: 3)",
        seconds=(4.0, "seconds of each loop (default: 4)"),
    )
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 1, 1.0
    exit_on_signal()
    machine, meter = Machine.here(), NoiseMeter()
    with servers() as found:
        samples = asyncio.run(measure(found, options.rounds, options.seconds))
    print(report(samples))
    print("", *machine.lines(), meter.line(), sep="\n")
    figures = {
        name: [asdict(each.loop) | {"proxy_cpu_us": each.proxy_cpu_us} for each in measured]
        for name, measured in samples.items()
    }
    write_run(options, machine, meter, {"loops": figures})
    return 0


if __name__ == "__main__":
    sys.exit(main())
