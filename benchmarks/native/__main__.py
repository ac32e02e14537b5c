"""`python -m benchmarks.native`: state that Spark keeps itself, served from its checkpoint.

A query of plain Structured Streaming writes a million keys. A server loads its checkpoint, and a
client looks up random keys of it, of our own state, and with Spark's state reader. Then a query
runs batch after batch, with a follower and without, and its checkpoint is followed on S3. Every
answer is checked.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from benchmarks.arguments import EXPERIMENTS, add_common_arguments, write_run
from benchmarks.child_process import LineProcess
from benchmarks.figures import table, thousands
from benchmarks.machine import Machine, NoiseMeter
from benchmarks.signals import run_async

if TYPE_CHECKING:
    from benchmarks.native.replayed import ReplayedCheckpoint

IN_FLIGHT = (1, 64, 1024)
READER_LOOKUPS = 10
PARTITIONS = 2
WARM_UP_BATCHES = 20
S3_DELAYS_MS = (0, 50)


class SparkQueries:
    """The commands of `spark_process`."""

    def __init__(self, process: LineProcess) -> None:
        self._process = process

    async def call(self, name: str, *arguments: object) -> dict[str, Any]:
        """Runs one command."""
        return await asyncio.to_thread(self._process.command, json.dumps([name, *arguments]))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.native", description=__doc__)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--batches", type=int, default=100, help="of each run with a follower")
    parser.add_argument("--s3-batches", type=int, default=40, help="with a checkpoint on S3")
    parser.add_argument(
        "--s3-partitions", type=int, nargs="+", default=[2, 50], help="state partitions of them"
    )
    add_common_arguments(
        parser,
        rounds="of all loops",
        seconds=(3.0, "of each loop, after warm-up"),
        quick="100,000 keys, one short round",
    )
    options = parser.parse_args()
    if options.quick:
        options.keys, options.batches, options.rounds, options.seconds = 100_000, 20, 1, 0.5
        options.s3_batches, options.s3_partitions = 10, [2]
    # Before the first import of gRPC, in this process and its children.
    os.environ.setdefault("GRPC_EXPERIMENTS", EXPERIMENTS)
    return run_async(run(options))


async def run(options: argparse.Namespace) -> int:
    """Measures, prints and writes the figures."""
    machine, meter = Machine.here(), NoiseMeter()
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="benchmark-native-") as folder:
        command = [sys.executable, "-m", "benchmarks.native.spark_process", folder]
        with LineProcess("the Spark process", command) as process:
            spark = SparkQueries(process)
            figures["lookups"] = await _lookups(spark, options)
            figures["following"] = await _following(spark, options.batches)
            figures["object_store"] = await _on_object_store(
                spark, options.s3_partitions, options.s3_batches
            )
    print("\n".join([*machine.lines(), meter.line()]))
    print(_report(figures, options.keys))
    write_run(options, machine, meter, figures)
    return 0


async def _lookups(spark: SparkQueries, options: argparse.Namespace) -> dict[str, Any]:
    from benchmarks.capacity.dataset import DerivedRecords, key_of
    from benchmarks.capacity.loader import loader
    from benchmarks.native.lookups import native_loop, own_loop
    from benchmarks.native.served import ServedCheckpoint

    written = await spark.call("write", options.keys)
    checkpoint = written["checkpoint"]
    reader_keys = [key_of(n * 7919 % options.keys) for n in range(READER_LOOKUPS)]
    reader = await spark.call("read", checkpoint, reader_keys)
    records = DerivedRecords(options.keys)
    found: dict[str, Any] = {"write_s": written["seconds"], "reader_ms": reader["ms"]}
    with loader(options.keys, "rocksdb") as handle:
        job = await asyncio.to_thread(handle.describe)
        await asyncio.to_thread(handle.load)
        with ServedCheckpoint(checkpoint) as served:
            found["start_s"], found["loaded_rss_bytes"] = served.start_s, served.rss_bytes
            loops: dict[str, list[Any]] = {"native": [], "own": []}
            for _ in range(options.rounds):
                for in_flight in IN_FLIGHT:
                    load = {"in_flight": in_flight, "seconds": options.seconds}
                    native = await native_loop(served.address, options.keys, **load)
                    own = await own_loop(records, job, **load)
                    loops["native"].append({"in_flight": in_flight, **asdict(native)})
                    loops["own"].append({"in_flight": in_flight, **asdict(own)})
            found["warm_rss_bytes"] = served.rss_bytes
    return found | loops


async def _following(spark: SparkQueries, batches: int) -> dict[str, Any]:
    from benchmarks.native.lookups import freshness_ms
    from benchmarks.native.served import ServedCheckpoint

    checkpoint = (await spark.call("run", PARTITIONS, WARM_UP_BATCHES))["checkpoint"]
    alone = (await spark.call("batches", batches))["ms"]
    with ServedCheckpoint(checkpoint, "--follow") as served:
        fresh = await freshness_ms(served.address, checkpoint, batches)
        cpu_s = served.cpu_s
        followed = (await spark.call("batches", batches))["ms"]
        cpu_ms = (served.cpu_s - cpu_s) * 1000 / batches
    alone_again = (await spark.call("batches", batches))["ms"]
    await spark.call("stop")
    return {
        "freshness_ms": sorted(fresh),
        "alone_ms": alone + alone_again,
        "followed_ms": followed,
        "server_cpu_ms_per_batch": cpu_ms,
    }


async def _on_object_store(
    spark: SparkQueries, numbers_of_partitions: list[int], batches: int
) -> list[dict[str, Any]]:
    """Freshness with a checkpoint on S3, for each time that its requests take."""
    from benchmarks.native.replayed import ReplayedCheckpoint

    found: list[dict[str, Any]] = []
    command = [sys.executable, "-m", "benchmarks.native.s3_server"]
    with LineProcess("the S3 server", command) as server:
        url = server.read()["url"]
        for partitions in numbers_of_partitions:
            written = await spark.call("run", partitions, batches + 1)
            await spark.call("stop")
            for delay_ms in S3_DELAYS_MS:
                name = f"{partitions}-partitions-{delay_ms}-ms"
                replayed = ReplayedCheckpoint(written["checkpoint"], url, "bucket", name)
                replayed.commit(replayed.last - batches)
                fresh = await _replayed_freshness_ms(server, url, replayed, delay_ms, batches)
                found.append({"partitions": partitions, "delay_ms": delay_ms, **fresh})
    return found


async def _replayed_freshness_ms(
    server: LineProcess, url: str, replayed: ReplayedCheckpoint, delay_ms: int, batches: int
) -> dict[str, Any]:
    from benchmarks.native.lookups import replayed_freshness_ms
    from benchmarks.native.served import ServedCheckpoint

    storage = json.dumps({"endpoint_url": url, "key": "test", "secret": "test"})
    with ServedCheckpoint(replayed.uri, "--follow", "--storage-options", storage) as served:
        server.command(str(delay_ms))
        cpu_s = served.cpu_s
        fresh = await replayed_freshness_ms(served.address, replayed, batches)
        cpu_ms = (served.cpu_s - cpu_s) * 1000 / batches
        server.command("0")
    return {"freshness_ms": sorted(fresh), "server_cpu_ms_per_batch": cpu_ms}


def _report(figures: dict[str, Any], keys: int) -> str:
    lookups, following = figures["lookups"], figures["following"]
    reader_ms = statistics.median(lookups["reader_ms"])
    rows = []
    for in_flight in IN_FLIGHT:
        native, own = (
            [each for each in lookups[kind] if each["in_flight"] == in_flight]
            for kind in ("native", "own")
        )
        native_rate, own_rate = (
            statistics.median(each["per_second"] for each in loops) for loops in (native, own)
        )
        p50 = statistics.median(each["p50_us"] for each in native)
        p99 = statistics.median(each["p99_us"] for each in native)
        rows.append(
            [
                str(in_flight),
                thousands(native_rate),
                f"{p50 / 1000:.2f} ms",
                f"{p99 / 1000:.2f} ms",
                f"{native_rate / own_rate:.2f}",
                f"{native_rate * reader_ms / 1000:,.0f}",
            ]
        )
    fresh = following["freshness_ms"]
    header = ["in flight", "a second", "p50", "p99", "/ own state", "/ Spark's reader"]
    return "\n".join(
        [
            (
                f"{keys:,} keys: served {lookups['start_s']:.1f} s after the start of the process, "
                f"RSS {lookups['loaded_rss_bytes'] / 2**20:.0f} MiB, after the look-ups "
                f"{lookups['warm_rss_bytes'] / 2**20:.0f} MiB"
            ),
            f"Spark's reader: {reader_ms:.0f} ms a key",
            table(header, rows),
            (
                f"commits/N to an answer: p50 {fresh[len(fresh) // 2]:.0f} ms, p95 "
                f"{fresh[int(len(fresh) * 0.95)]:.0f} ms; batches take "
                f"{statistics.median(following['alone_ms']):.0f} ms alone, "
                f"{statistics.median(following['followed_ms']):.0f} ms followed; the follower uses "
                f"{following['server_cpu_ms_per_batch']:.1f} ms of CPU a batch"
            ),
            *(_object_store_line(each) for each in figures["object_store"]),
        ]
    )


def _object_store_line(found: dict[str, Any]) -> str:
    fresh = found["freshness_ms"]
    return (
        f"commits/N on S3 to an answer, {found['partitions']} partitions, {found['delay_ms']} ms "
        f"before each request: p50 {fresh[len(fresh) // 2]:.0f} ms, p99 "
        f"{fresh[int(len(fresh) * 0.99)]:.0f} ms of {len(fresh)} batches; the follower uses "
        f"{found['server_cpu_ms_per_batch']:.0f} ms of CPU a batch"
    )


if __name__ == "__main__":
    sys.exit(main())
