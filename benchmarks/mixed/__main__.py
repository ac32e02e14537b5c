"""`python -m benchmarks.mixed`: a streaming job and its look-ups, both at full load.

A Structured Streaming job that always has data computes two sums over 10,000 keys, and one asyncio
process looks up keys in closed loops. `ours` is a job with queryable state and our client; `redis`
is Spark's native aggregation whose `foreachBatch` writes to Redis, and redis-py with one connection
per look-up in flight. Each run is a fresh JVM; once it is warm it runs windows without look-ups and
with them. The jobs alternate. Every answer must be a sum of whole batches of its key, and at the
end every key must be right.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.arguments import EXPERIMENTS, add_common_arguments, chosen, write_run
from benchmarks.figures import thousands
from benchmarks.machine import Machine, NoiseMeter
from benchmarks.mixed.cpu_by_part import MARK
from benchmarks.peers.redis_server import NOT_INSTALLED, redis_server
from benchmarks.signals import run_async
from benchmarks.streaming.dataset import Dataset, key_names

if TYPE_CHECKING:
    from benchmarks.mixed.measuring import Plan, Window

KINDS = ("ours", "redis")
CYCLE = 10
"""Batches of the dataset; the supply repeats them."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mixed", description=__doc__)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--rows-per-batch", type=int, default=200_000)
    parser.add_argument("--in-flight", default="1,64", help="look-ups, comma-separated")
    parser.add_argument("--warm-up", type=int, default=12, help="batches before the first window")
    parser.add_argument("--jobs", default=",".join(KINDS), help="some of: %(default)s")
    add_common_arguments(
        parser,
        rounds="runs of each job",
        seconds=(5.0, "of each window; a run has two of each kind"),
        quick="one round of short windows",
    )
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds, options.warm_up = 1, 2.0, 4
    kinds = chosen(parser, options.jobs, KINDS, "job")

    # Before the first import of gRPC, in this process and its children.
    os.environ.setdefault("GRPC_EXPERIMENTS", EXPERIMENTS)
    os.environ[MARK] = uuid.uuid4().hex
    from benchmarks.mixed.measuring import Plan

    plan = Plan(
        in_flight=(0, *(int(count) for count in options.in_flight.split(","))),
        seconds=options.seconds,
        settle_s=1.0,
    )
    return run_async(run(options, kinds, plan))


async def run(options: argparse.Namespace, kinds: list[str], plan: Plan) -> int:
    """Measures, prints and writes the figures."""
    from benchmarks.mixed.report import report, to_json

    machine, meter = Machine.here(), NoiseMeter()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-mixed-")))
        port = stack.enter_context(redis_server()) if "redis" in kinds else None
        remarks = [NOT_INSTALLED] if "redis" in kinds and port is None else []
        if remarks:
            kinds = [kind for kind in kinds if kind != "redis"]
        dataset = Dataset(folder / "all", CYCLE, options.rows_per_batch, options.keys)
        dataset.write()
        runs = await measure(kinds, dataset, folder, plan, options, port or 0)
    print("\n".join(["", *machine.lines(), meter.line(), *remarks]))
    print(
        f"{options.keys:,} keys, {options.rows_per_batch:,} rows a batch; {options.rounds} rounds "
        f"of two windows of {plan.seconds:g} s, {options.warm_up} batches of warm-up in each; "
        "every answer and every final state was right\n"
    )
    print(report(runs))
    write_run(options, machine, meter, {"windows": to_json(runs)})
    return 0


async def measure(
    kinds: list[str],
    dataset: Dataset,
    folder: Path,
    plan: Plan,
    options: argparse.Namespace,
    port: int,
) -> dict[str, list[list[Window]]]:
    """The windows of every run, by kind; the jobs alternate, every other round in reverse order."""
    from benchmarks.mixed.clients import Client, OwnClient, RedisClient
    from benchmarks.mixed.history import History
    from benchmarks.mixed.job_process import JobProcess
    from benchmarks.mixed.measuring import measure_run

    history, keys = History.of(dataset), key_names(dataset.keys)
    runs: dict[str, list[list[Window]]] = {kind: [] for kind in kinds}
    for number in range(options.rounds):
        for kind in kinds if number % 2 == 0 else reversed(kinds):
            began = time.monotonic()
            work = folder / "run"
            with JobProcess(kind, dataset, work, warm_up=options.warm_up, port=port) as job:
                where = await asyncio.to_thread(job.read)
                client: Client = (
                    OwnClient(keys, where["address"], where["job_id"])
                    if kind == "ours"
                    else RedisClient(keys, where["port"])
                )
                async with client:
                    windows = await measure_run(job, client, history, plan, number)
            runs[kind].append(windows)
            _log(number, kind, windows, time.monotonic() - began)
    return runs


def _log(number: int, kind: str, windows: list[Window], passed_s: float) -> None:
    print(f"round {number + 1}: {kind}, every answer was right ({passed_s:.0f} s)", file=sys.stderr)
    for window in windows:
        look_ups = ""
        if (sample := window.look_ups) is not None:
            look_ups = (
                f", {thousands(sample.per_second):>6} look-ups/s  p50 {sample.p50_us:.0f} us  "
                f"p99 {sample.p99_us:.0f} us"
            )
        print(
            f"  {window.in_flight:3} in flight: {thousands(window.rows_per_second):>6} rows/s"
            f"{look_ups}",
            file=sys.stderr,
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
