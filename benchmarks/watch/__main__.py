"""`python -m benchmarks.watch`: latency of watches, and their cost to the job.

A job changes some thousand keys in each batch. Rounds without watches and rounds with 1,000 watches
of one key each alternate. The latency is from the commit time of a change, which is in whole
milliseconds, to its return by the client.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from contextlib import AsyncExitStack

from benchmarks.arguments import EXPERIMENTS, add_common_arguments, write_run
from benchmarks.figures import Spread, percentile
from benchmarks.machine import Machine, NoiseMeter
from benchmarks.watch.job_process import JOB, STATE, key_of

os.environ.setdefault("GRPC_EXPERIMENTS", EXPERIMENTS)

from queryable_state.client import QueryableStateClient

LATENCY_GOAL_MS = 20
COST_GOAL = 0.05
_KEYS = 20_000
# Watches of one connection, below the limit of servers.
_OF_ONE_CLIENT = 500


class Job:
    """The process of the job."""

    def __init__(self, process: asyncio.subprocess.Process, address: str) -> None:
        self._process = process
        self.address = address

    @classmethod
    async def start(cls, changed: int, batches: int, pause_s: float) -> Job:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "benchmarks.watch.job_process",
            *map(str, (_KEYS, changed, batches, pause_s)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        return cls(process, (await process.stdout.readline()).decode().strip())

    async def round(self) -> tuple[list[float], float]:
        """Runs the batches of a round: how long each took, and CPU a batch, in milliseconds."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"go\n")
        answer = json.loads(await self._process.stdout.readline())
        return answer["took_ms"], answer["cpu_ms"]

    async def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()


async def watched_round(job: Job, watches: int) -> tuple[list[float], float, list[int]]:
    """A round with watches of one key each, and the latencies of their changes."""
    latencies: list[int] = []

    async def follow(client: QueryableStateClient, key: str, opened: asyncio.Semaphore) -> None:
        async with client.watch(JOB, STATE, keys=[key]) as watch:
            opened.release()
            async for change in watch:
                late_ms = time.time_ns() // 1_000_000 - change.commit_time_ms
                latencies.append(late_ms)

    async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        opened = asyncio.Semaphore(0)
        following = []
        for first in range(0, watches, _OF_ONE_CLIENT):
            client = await stack.enter_async_context(
                QueryableStateClient(addresses=[job.address], timeout_s=60)
            )
            for number in range(first, min(watches, first + _OF_ONE_CLIENT)):
                key = key_of(number * _KEYS // watches)
                following.append(tasks.create_task(follow(client, key, opened)))
        for _ in range(watches):
            await opened.acquire()
        took_ms, cpu_ms = await job.round()
        await asyncio.sleep(0.5)
        for task in following:
            task.cancel()
    return took_ms, cpu_ms, latencies


async def measure(options: argparse.Namespace) -> dict[str, object]:
    batches = 10 if options.quick else 40
    job = await Job.start(options.changed, batches, options.pause)
    idle: list[float] = []
    busy: list[float] = []
    idle_cpu: list[float] = []
    busy_cpu: list[float] = []
    latencies: list[int] = []
    try:
        await job.round()
        for _ in range(options.rounds):
            took_ms, cpu_ms = await job.round()
            idle += took_ms
            idle_cpu.append(cpu_ms)
            took_ms, cpu_ms, found = await watched_round(job, options.watches)
            busy += took_ms
            busy_cpu.append(cpu_ms)
            latencies += found
    finally:
        await job.stop()
    latencies.sort()
    before, after = Spread.of(idle), Spread.of(busy)
    return {
        "watches": options.watches,
        "changed_keys": options.changed,
        "changes": len(latencies),
        "latency_p50_ms": percentile(latencies, 0.5),
        "latency_p99_ms": percentile(latencies, 0.99),
        "batch_ms": before.median,
        "watched_batch_ms": after.median,
        "batch_cost": after.median / before.median - 1,
        "cpu_ms": Spread.of(idle_cpu).median,
        "watched_cpu_ms": Spread.of(busy_cpu).median,
        "pause_s": options.pause,
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.watch", description=__doc__)
    add_common_arguments(parser, quick="10 batches a round", rounds="pairs of rounds")
    parser.add_argument("--watches", type=int, default=1000, help="watches of one key each")
    parser.add_argument("--changed", type=int, default=5000, help="keys that a batch changes")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds from batch to batch")
    options = parser.parse_args()
    machine, meter = Machine.here(), NoiseMeter()
    found = asyncio.run(measure(options))
    print(
        f"{found['changes']} changes, commit to client: p50 {found['latency_p50_ms']} ms "
        f"(goal {LATENCY_GOAL_MS}), p99 {found['latency_p99_ms']} ms\n"
        f"batch {found['batch_ms']:.1f} ms, with {found['watches']} watches "
        f"{found['watched_batch_ms']:.1f} ms: {found['batch_cost']:+.1%} (goal {COST_GOAL:.0%})\n"
        f"CPU of the job's process a batch {found['cpu_ms']:.0f} ms, watched "
        f"{found['watched_cpu_ms']:.0f} ms"
    )
    print(meter.line())
    write_run(options, machine, meter, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
