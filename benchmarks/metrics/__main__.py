"""`python -m benchmarks.metrics`: what metrics cost a query over frames, and a scrape.

CPU time of the owner's session for one message: it is parsed, answered from the heap and serialized
in this process. Rounds with and without the counters take turns. Sockets and the kernel are not
measured, so the share of a whole query is smaller than the one that is printed.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.arguments import add_common_arguments, write_run
from benchmarks.figures import Spread, table
from benchmarks.gc_modes import collecting
from benchmarks.machine import Machine, NoiseMeter
from benchmarks.metrics.uncounted_connection import UncountedConnection
from benchmarks.signals import run_async
from queryable_state.server.coordinator_client import CoordinatorClient
from queryable_state.server.query.frames.frame_connection import FrameConnection
from queryable_state.server.query.frames.open_streams import OpenStreams
from queryable_state.server.query.local_router import LocalRouter
from queryable_state.server.query.proxy.location_table import LocationTable
from queryable_state.server.query.router import ServiceInfo
from queryable_state.server.serving.byte_budget import ClientBudgets
from queryable_state.server.testing.cluster import InProcessCluster, declare
from queryable_state.v1 import query_pb2
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.keys.key_groups import KeyGroups
from queryable_state.wire.schema.types import Types

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from queryable_state.server.state_server.server import StateServer

GOAL = 0.02
_KEYS = 20_000
# The loop stands still while messages are answered.
_LEASE_MS = 600_000
_MESSAGES = 2_000
_SIZES = (1, 16)


async def measure(rounds: int) -> dict[str, object]:
    """The figures."""
    with tempfile.TemporaryDirectory(prefix="metrics-") as folder:
        async with InProcessCluster(Path(folder), backend="heap", lease_ms=_LEASE_MS) as cluster:
            job = cluster.job("metrics", declare("last", "string", "double"))
            values = {f"sensor_{number}": float(number) for number in range(_KEYS)}
            await job.run(0, {"last": values})
            [server] = cluster.servers
            state_id = next(iter(server.table.routes())).registration.state_id
            found: dict[str, object] = {}
            for keys in _SIZES:
                found[str(keys)] = _message(server, _frames(list(values), keys, state_id), rounds)
            scrapes = [_cpu_us(server.metrics.text) / 1e3 for _ in range(15)]
            found["scrape_ms"] = Spread.of(scrapes).median
            return found


def _frames(names: Sequence[str], keys: int, state_id: int) -> list[bytes]:
    """Messages of random keys."""
    codec, groups = KeyCodec(Types.STRING()), KeyGroups(Types.STRING(), 128)
    random.seed(7)

    def wire_key(name: str) -> bytes:
        return groups.of(name).to_bytes(2, "big") + codec.encode(name)

    return [
        query_pb2.ClientFrame(
            query=query_pb2.Query(
                id=number + 1,
                state_id=state_id,
                keys=[wire_key(name) for name in random.sample(names, keys)],
            )
        ).SerializeToString()
        for number in range(_MESSAGES)
    ]


def _message(server: StateServer, frames: Sequence[bytes], rounds: int) -> dict[str, float]:
    """Microseconds a message without and with the counters: the least, and the median ratio."""
    plain, counted = (_session(server, kind) for kind in (UncountedConnection, FrameConnection))
    for session in (plain, counted):
        _check(session.answer(frames[0]))
    ratios, least = [], {"without": float("inf"), "with": float("inf")}
    with collecting():
        for number in range(rounds):
            took = {}
            order = [("without", plain), ("with", counted)]
            for name, session in order if number % 2 else reversed(order):
                took[name] = _cpu_us(partial(_answer, session, frames))
                least[name] = min(least[name], took[name] / len(frames))
            ratios.append(took["with"] / took["without"])
    spread = Spread.of(ratios)
    return {**least, "ratio": spread.median, "lowest": spread.lowest, "highest": spread.highest}


def _answer(session: FrameConnection, frames: Sequence[bytes]) -> None:
    for frame in frames:
        session.answer(frame)


def _check(answer: bytes | None) -> None:
    """Raises unless it has values: a refusal costs less."""
    assert answer is not None
    found = query_pb2.ServerFrame.FromString(answer).answer
    if found.HasField("error") or found.failed:
        raise RuntimeError(f"the query was refused: {found}")


def _session(server: StateServer, kind: type[FrameConnection]) -> FrameConnection:
    info = ServiceInfo(server_id="metrics", role=query_pb2.OWNER, limits=server.settings.limits)
    settings = server.settings
    # Locates nothing here: the messages have the id of the state.
    locations = LocationTable(CoordinatorClient(settings.coordinator_address, settings.secret))
    router = LocalRouter(server.engine, locations)
    budgets = ClientBudgets(info.limits.held_bytes)
    session = kind(router, info, OpenStreams(info), budgets, set())
    hello = query_pb2.ClientHello(min_version=1, max_version=1)
    session.greet(query_pb2.ClientFrame(hello=hello).SerializeToString())
    return session


def _cpu_us(work: Callable[[], object]) -> float:
    begun = time.thread_time_ns()
    work()
    return (time.thread_time_ns() - begun) / 1e3


def report(found: dict[str, Any]) -> str:
    """The tables."""
    rows = [
        [
            str(keys),
            f"{found[str(keys)]['without']:.2f}",
            f"{found[str(keys)]['with']:.2f}",
            f"{found[str(keys)]['with'] - found[str(keys)]['without']:.2f}",
            "{ratio:.3f} ({lowest:.2f}-{highest:.2f})".format(**found[str(keys)]),
        ]
        for keys in _SIZES
    ]
    head = ["keys in the message", "without, µs", "with, µs", "difference", "median of the ratios"]
    return f"{table(head, rows)}\n\nscrape of the state server: {found['scrape_ms']:.1f} ms"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.metrics", description=__doc__)
    add_common_arguments(parser, quick="10 pairs of rounds", rounds="pairs of rounds")
    parser.set_defaults(rounds=60)
    options = parser.parse_args()
    if options.quick:
        options.rounds = 10
    return run_async(run(options))


async def run(options: argparse.Namespace) -> int:
    """Measures, prints and writes the figures."""
    machine, meter = Machine.here(), NoiseMeter()
    found = await measure(options.rounds)
    print(report(found))
    print("", *machine.lines(), meter.line(), sep="\n")
    write_run(options, machine, meter, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
