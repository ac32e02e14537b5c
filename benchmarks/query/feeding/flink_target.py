"""The writing side of Flink: a job in a MiniCluster that reads updates from a socket."""

from __future__ import annotations

import contextlib
import socket
import tempfile
from typing import TYPE_CHECKING, Literal, Self

from benchmarks.child_process import free_port
from benchmarks.peers.flink_program import FlinkProgram

if TYPE_CHECKING:
    from types import TracebackType

    from benchmarks.query.dataset import Dataset

START_TIMEOUT_S = 60.0


class FlinkTarget:
    """A job that keeps the last value of each key in queryable state; one line per update."""

    def __init__(self, dataset: Dataset, *, backend: Literal["hashmap", "rocksdb"]) -> None:
        self._dataset = dataset
        self._backend = backend
        self._stack = contextlib.ExitStack()
        self._written = 0

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-flink-"))
            listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            listening.settimeout(START_TIMEOUT_S)
            self._proxy_port = free_port()
            feed_port = listening.getsockname()[1]
            self._job = stack.enter_context(
                FlinkProgram(
                    "FlinkJob",
                    self._backend,
                    folder,
                    str(self._proxy_port),
                    str(feed_port),
                    is_server=True,
                )
            )
            self._description = self._job.read()
            connection, _ = listening.accept()
            self._feed = stack.enter_context(connection)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def describe(self) -> dict[str, object]:
        """Job id, versions of Flink and Java, and the proxy's port."""
        return {**self._description, "port": self._proxy_port}

    def write(self, revision: int, numbers: list[int]) -> None:
        """Sends keys at a revision and waits until the job has them in its state."""
        lines = [
            f"{self._dataset.keys[number]}\t{self._dataset.value(number, revision)}\n"
            for number in numbers
        ]
        self._feed.sendall("".join(lines).encode())
        self._written += len(numbers)
        self._job.command(str(self._written))
