"""The redis peer: a server of its own in a temporary folder, or a reason why there is none."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING

import redis

from benchmarks.query.free_port import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

HOW_TO_GET_IT = "redis-server is not on PATH (apt-get install redis-server): no redis rows"
START_TIMEOUT_S = 10.0


@contextlib.contextmanager
def redis_server() -> Iterator[int | None]:
    """Runs redis-server, nothing on disk; gives its port, None where it is not installed."""
    executable = shutil.which("redis-server")
    if executable is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="benchmark-redis-") as folder:
        port = free_port()
        process = subprocess.Popen(
            [executable, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # A scheduling group of its own, as state servers have.
            start_new_session=True,
        )
        try:
            _wait(port, process)
            yield port
        finally:
            process.terminate()
            process.wait()


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            with redis.Redis(port=port) as connection:
                connection.ping()
            return
        except redis.ConnectionError as refusal:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"redis-server did not start on port {port}") from refusal
            time.sleep(0.02)
