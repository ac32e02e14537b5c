"""The feeder: the process that loads one peer and writes to it during the loops.

`python -m benchmarks.query.feeding.feeder KIND ...` loads the dataset and prints one JSON line with
the peer's addresses. It obeys `run` and `pause` on its standard input and answers each with one
JSON line: the last written revision. It ends with its standard input.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Literal, Protocol

from benchmarks.child_process import LineProcess
from benchmarks.query.dataset import Dataset
from benchmarks.signals import exit_on_sigterm

if TYPE_CHECKING:
    from collections.abc import Iterator

FLINK_BACKENDS: dict[str, Literal["hashmap", "rocksdb"]] = {
    "flink-heap": "hashmap",
    "flink-rocksdb": "rocksdb",
}


class Target(Protocol):
    """The writing side of a peer."""

    def describe(self) -> dict[str, object]:
        """The addresses and versions that a client needs."""
        ...

    def write(self, revision: int, numbers: list[int]) -> None:
        """Commits keys at a revision, readable on return. Revision 0 is the whole dataset."""
        ...


class Pacer:
    """A thread that commits some keys at an interval; it does not catch up on late commits.

    An interval of 0 means no commits.
    """

    def __init__(
        self, target: Target, dataset: Dataset, *, keys_per_commit: int, interval_s: float
    ) -> None:
        self.revision = 0
        self._target = target
        self._dataset = dataset
        self._keys_per_commit = keys_per_commit
        self._interval_s = interval_s
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def run(self) -> None:
        """Starts to write; idempotent."""
        if self._thread is None and self._interval_s:
            self._stop.clear()
            self._thread = threading.Thread(target=self._write_until_stopped, name="pacer")
            self._thread.start()

    def pause(self) -> None:
        """Returns when the last commit is readable; idempotent."""
        if self._thread is not None:
            self._stop.set()
            self._thread.join()
            self._thread = None

    def _write_until_stopped(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            numbers = self._dataset.updates(self.revision + 1, self._keys_per_commit)
            self._target.write(self.revision + 1, numbers)
            self.revision += 1
            self._stop.wait(max(0.0, self._interval_s - (time.monotonic() - began)))


class FeederProcess(LineProcess):
    """The feeder of one peer, as the client process drives it."""

    def __init__(
        self,
        kind: str,
        dataset: Dataset,
        *,
        updates_per_second: int,
        keys_per_commit: int,
        arguments: tuple[str, ...] = (),
    ) -> None:
        interval_s = keys_per_commit / updates_per_second if updates_per_second else 0.0
        super().__init__(
            f"the feeder of {kind}",
            [
                *(sys.executable, "-m", "benchmarks.query.feeding.feeder", kind),
                *("--keys", str(dataset.size)),
                *("--interval-s", str(interval_s)),
                *("--keys-per-commit", str(keys_per_commit)),
                *arguments,
            ],
        )
        self.keys_per_commit = keys_per_commit
        self.description: dict[str, Any] = {}
        """The addresses and versions of `Target.describe`, once loaded."""
        self.revision = 0
        """The last written revision, as of the last command."""
        self.written_s = 0.0
        """Seconds between `run` and the end of `pause`, all together."""
        self._running_since = 0.0

    @property
    def updates_per_second(self) -> float:
        """The rate of updates while the feeder ran; 0 if it never ran."""
        return self.revision * self.keys_per_commit / self.written_s if self.written_s else 0.0

    def wait_loaded(self) -> None:
        """Returns when the peer holds the whole dataset."""
        self.description = self.read()

    def run(self) -> None:
        """Starts to write."""
        self._running_since = time.monotonic()
        self.command("run")

    def pause(self) -> None:
        """Stops writing; every revision up to `revision` is readable then."""
        self.revision = self.command("pause")["revision"]
        self.written_s += time.monotonic() - self._running_since


@contextlib.contextmanager
def open_target(options: argparse.Namespace, dataset: Dataset) -> Iterator[Target]:
    """Starts the writing side of a peer."""
    if options.kind == "redis":
        from benchmarks.query.feeding.redis_target import RedisTarget

        yield RedisTarget(options.port, dataset)
    elif options.kind == "spark":
        from benchmarks.query.feeding.spark_target import SparkTarget

        with SparkTarget(dataset) as spark:
            yield spark
    elif options.kind in FLINK_BACKENDS:
        from benchmarks.query.feeding.flink_target import FlinkTarget

        with FlinkTarget(dataset, backend=FLINK_BACKENDS[options.kind]) as flink:
            yield flink
    else:
        from benchmarks.query.feeding.job_target import JobTarget

        with JobTarget(
            dataset,
            backend=options.kind,
            servers=options.servers,
            tls=options.tls,
            token=options.token,
        ) as target:
            yield target


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("heap", "rocksdb", "spark", "redis", *FLINK_BACKENDS))
    parser.add_argument("--keys", type=int, required=True)
    parser.add_argument("--keys-per-commit", type=int, required=True)
    parser.add_argument(
        "--interval-s", type=float, required=True, help="between two commits; 0: none"
    )
    parser.add_argument("--servers", type=int, default=1, help="state servers of the keys")
    parser.add_argument("--tls", action="store_true", help="TLS on every port")
    parser.add_argument("--token", action="store_true", help="callers need a token")
    parser.add_argument("--port", type=int, default=0, help="port of redis-server")
    options = parser.parse_args()
    exit_on_sigterm()
    dataset = Dataset(options.keys)
    with open_target(options, dataset) as target:
        target.write(0, list(range(dataset.size)))
        pacer = Pacer(
            target,
            dataset,
            keys_per_commit=options.keys_per_commit,
            interval_s=options.interval_s,
        )
        _send(target.describe())
        try:
            for line in sys.stdin:
                if line.strip() == "run":
                    pacer.run()
                else:
                    pacer.pause()
                _send({"revision": pacer.revision})
        finally:
            pacer.pause()


def _send(content: dict[str, Any]) -> None:
    print(json.dumps(content), flush=True)


if __name__ == "__main__":
    main()
