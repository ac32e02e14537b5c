"""One streaming job at full load, in a process of its own with a fresh JVM.

`python -m benchmarks.mixed.job KIND ...` prints a JSON line with its addresses and another one once
the JVM is warm. It answers `finish` on its standard input with a line about all batches, once the
last one is readable, and ends with its standard input.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.mixed import redis_job
from benchmarks.mixed.supply import Supply
from benchmarks.signals import exit_on_sigterm
from benchmarks.streaming import own_variants
from benchmarks.streaming.dataset import Dataset
from benchmarks.streaming.session import start_session
from queryable_state.streaming import StreamExecutionEnvironment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CHECKPOINT = "checkpoint"
"""The name that `own_variants.start` gives the folder."""
_POLL_S = 0.2
_WEB_S = 60.0


@dataclass(frozen=True)
class Job:
    """A running job of either kind."""

    query: StreamingQuery
    addresses: dict[str, Any]
    """The addresses that a client needs."""
    process_all: Callable[[], None]
    """Returns when all supplied batches are processed and readable."""


@contextlib.contextmanager
def own_job(spark: SparkSession, supply: Supply, work: Path, *, web: bool) -> Iterator[Job]:
    """Runs our built-in sums: RocksDB, queryable, every batch durable before it commits.

    `web`: the addresses have the URL of REST and the page.
    """
    with StreamExecutionEnvironment.get_execution_environment(spark) as environment:
        job = own_variants.start("sums", environment, spark, supply.pattern, work)
        addresses = {"address": job.proxy_address(), "job_id": job.job_id}
        if web:
            addresses["web"] = job.web_address(timeout_s=_WEB_S)
        yield Job(job.query, addresses, job.process_all_available)
        job.cancel()


@contextlib.contextmanager
def peer_job(spark: SparkSession, supply: Supply, work: Path, port: int) -> Iterator[Job]:
    """Runs Spark's native sums, sent to Redis."""
    query = redis_job.start(spark, supply.pattern, work / CHECKPOINT, port)
    yield Job(query, {"port": port}, query.processAllAvailable)
    query.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("ours", "redis"))
    parser.add_argument("--data", type=Path, required=True, help="folder of the dataset")
    parser.add_argument("--batches", type=int, required=True, help="of the dataset")
    parser.add_argument("--rows-per-batch", type=int, required=True)
    parser.add_argument("--keys", type=int, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--warm-up", type=int, required=True, help="batches of the warm-up")
    parser.add_argument("--port", type=int, default=0, help="port of redis-server")
    parser.add_argument("--web", action="store_true", help="serve REST and the page")
    options = parser.parse_args()
    exit_on_sigterm()
    dataset = Dataset(options.data, options.batches, options.rows_per_batch, options.keys)
    work = options.work
    supply = Supply(dataset, work / "supply", work / CHECKPOINT)
    with contextlib.ExitStack() as stack:
        backend = {"spark.queryable_state.backend": "rocksdb"} if options.kind == "ours" else {}
        if options.web:
            backend["spark.queryable_state.web"] = "on"
        spark = start_session(work, backend)
        stack.callback(spark.stop)
        stack.callback(supply.stop)
        supply.start()
        job = stack.enter_context(
            own_job(spark, supply, work, web=options.web)
            if options.kind == "ours"
            else peer_job(spark, supply, work, options.port)
        )
        _send(job.addresses)
        while (job.query.lastProgress or {"batchId": -1})["batchId"] < options.warm_up:
            if job.query.exception() is not None:
                raise RuntimeError(f"the job failed: {job.query.exception()}")
            time.sleep(_POLL_S)
        _send({})
        if sys.stdin.readline().strip() == "finish":
            supply.stop()
            job.process_all()
            _send({"supplied": supply.supplied, "batches": _batches(job.query)})
            # The client process looks up its state until it closes the pipe.
            sys.stdin.read()


def _batches(query: StreamingQuery) -> list[dict[str, float]]:
    """Start, duration and rows of each batch, in order."""
    return [
        {
            "began_s": datetime.fromisoformat(progress["timestamp"]).timestamp(),
            "ms": progress["durationMs"]["triggerExecution"],
            "rows": progress["numInputRows"],
        }
        for progress in query.recentProgress
        if progress["numInputRows"]
    ]


def _send(content: dict[str, Any]) -> None:
    print(json.dumps(content), flush=True)


if __name__ == "__main__":
    main()
