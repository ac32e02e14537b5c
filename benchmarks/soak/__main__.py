"""`python -m benchmarks.soak`: two minutes of everything at once, in which nothing may grow.

A Structured Streaming job at full load with TLS and tokens; clients with one connection each; scans
of all keys one after the other; pages and watches; and look-ups in an open loop at a share of the
capacity that is measured beside all of these.
Every answer must be a sum of whole batches of its key, every scan complete and of one batch. The
exit code is 1 if a call failed, or if a process of ours has grown since the first half minute.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.arguments import EXPERIMENTS, add_common_arguments, write_run
from benchmarks.figures import thousands
from benchmarks.machine import Machine, NoiseMeter
from benchmarks.mixed.__main__ import CYCLE
from benchmarks.mixed.cpu_by_part import MARK
from benchmarks.signals import run_async
from benchmarks.soak.memory import GROWTH_FROM_S
from benchmarks.streaming.dataset import Dataset

if TYPE_CHECKING:
    from benchmarks.soak.measuring import Soaked

CALLER = "soak"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--connections", type=int, default=2_000)
    parser.add_argument("--share", type=float, default=0.5, help="of the measured capacity")
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--rows-per-batch", type=int, default=200_000)
    add_common_arguments(
        parser, seconds=(120.0, "of the soak"), quick="40 seconds with 100 connections"
    )
    options = parser.parse_args()
    if options.quick:
        options.seconds, options.connections = 40.0, 100
    if options.seconds <= GROWTH_FROM_S:
        parser.error(f"--seconds must be above {GROWTH_FROM_S:g}: growth is measured from then on")

    # Before the first import of gRPC, in this process and its children.
    os.environ.setdefault("GRPC_EXPERIMENTS", EXPERIMENTS)
    os.environ[MARK] = uuid.uuid4().hex
    return run_async(run(options))


async def run(options: argparse.Namespace) -> int:
    """Measures, prints and writes the figures."""
    from benchmarks.mixed.job_process import JobProcess
    from benchmarks.soak.measuring import soak
    from benchmarks.soak.secured import secure

    machine, meter = Machine.here(), NoiseMeter()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-soak-")))
        caller = secure(folder, CALLER)
        dataset = Dataset(folder / "all", CYCLE, options.rows_per_batch, options.keys)
        dataset.write()
        job = stack.enter_context(
            JobProcess("ours", dataset, folder / "run", warm_up=12, port=0, web=True)
        )
        where = await asyncio.to_thread(job.read)
        soaked = await soak(job, where, dataset, caller, options)
    print("\n".join(["", *machine.lines(), meter.line(), "", *lines(soaked, options)]))
    write_run(options, machine, meter, soaked.to_json())
    return 1 if soaked.problems() else 0


def lines(soaked: Soaked, options: argparse.Namespace) -> list[str]:
    """The figures as text."""
    loop = soaked.look_ups
    return [
        f"capacity: {thousands(soaked.capacity)} look-ups/s beside everything else",
        f"{options.seconds:g} s at {thousands(loop.rate)}/s: {loop.answers:,} answers",
        f"latency: p50 {loop.p50_us:.0f} us, p99 {loop.p99_us:.0f} us",
        f"{options.connections:,} connections: {soaked.connected['answers']:,} look-ups",
        f"{soaked.scans:,} scans of {options.keys:,} keys; {soaked.batches:,} batches",
        f"pages: {soaked.seen.answers:,} answers, {soaked.seen.events:,} events",
        f"watches: {soaked.seen.changes:,} changes",
        *soaked.memory.lines(),
        *(soaked.problems() or ["no error, nothing has grown"]),
    ]


if __name__ == "__main__":
    sys.exit(main())
