"""Writes to one peer while it is asked: the process that stands in for a running job.

`python -m benchmarks.query.feeder KIND ...` loads the dataset, prints one JSON line about
where to ask, then obeys `run`, `pause` and `quit` lines on its standard input, answering each
with one JSON line: the revision written last.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import threading
import time
from typing import TYPE_CHECKING, Literal, Protocol

from benchmarks.query.dataset import Dataset

if TYPE_CHECKING:
    from collections.abc import Iterator

INTERVAL_S = 0.2
FLINK_BACKENDS: dict[str, Literal["hashmap", "rocksdb"]] = {
    "flink-heap": "hashmap",
    "flink-rocksdb": "rocksdb",
}


def updates_per_interval(updates_per_second: int) -> int:
    """The keys of one revision."""
    return int(updates_per_second * INTERVAL_S)


class Target(Protocol):
    """What is written to."""

    def describe(self) -> dict[str, object]:
        """Where and how to ask."""
        ...

    def write(self, revision: int, numbers: list[int]) -> None:
        """Writes keys at a revision, readable on return. Revision 0 is the whole dataset."""
        ...


class Pacer:
    """Writes so many updates a second on a thread while it runs; late writes are not made up."""

    def __init__(self, target: Target, dataset: Dataset, updates_per_second: int) -> None:
        self.revision = 0
        self._target = target
        self._dataset = dataset
        self._updates = updates_per_interval(updates_per_second)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def run(self) -> None:
        """Begins to write; nothing where it does already."""
        if self._thread is None and self._updates:
            self._stop.clear()
            self._thread = threading.Thread(target=self._write_on, name="pacer")
            self._thread.start()

    def pause(self) -> None:
        """Returns when the last write is readable."""
        if self._thread is not None:
            self._stop.set()
            self._thread.join()
            self._thread = None

    def _write_on(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            numbers = self._dataset.updates(self.revision + 1, self._updates)
            self._target.write(self.revision + 1, numbers)
            self.revision += 1
            self._stop.wait(max(0.0, INTERVAL_S - (time.monotonic() - began)))


@contextlib.contextmanager
def open_target(options: argparse.Namespace, dataset: Dataset) -> Iterator[Target]:
    """The target of a kind, loaded."""
    if options.kind == "redis":
        from benchmarks.query.redis_target import RedisTarget

        yield RedisTarget(options.port, dataset)
        return
    if options.kind in FLINK_BACKENDS:
        from benchmarks.query.flink_target import FlinkTarget

        with FlinkTarget(dataset, backend=FLINK_BACKENDS[options.kind]) as flink:
            yield flink
        return
    from benchmarks.query.job_target import JobTarget

    with JobTarget(dataset, backend=options.kind, servers=options.servers) as target:
        yield target


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("heap", "rocksdb", "redis", *FLINK_BACKENDS))
    parser.add_argument("--keys", type=int, required=True)
    parser.add_argument("--updates-per-second", type=int, required=True)
    parser.add_argument("--servers", type=int, default=1, help="state servers the keys are over")
    parser.add_argument("--port", type=int, default=0, help="of redis")
    options = parser.parse_args()
    dataset = Dataset(options.keys)
    with open_target(options, dataset) as target:
        target.write(0, list(range(dataset.size)))
        pacer = Pacer(target, dataset, options.updates_per_second)
        _say(target.describe())
        try:
            for line in sys.stdin:
                match line.strip():
                    case "run":
                        pacer.run()
                    case "pause":
                        pacer.pause()
                    case "quit":
                        break
                _say({"revision": pacer.revision})
        finally:
            pacer.pause()


def _say(content: dict[str, object]) -> None:
    print(json.dumps(content), flush=True)


if __name__ == "__main__":
    main()
