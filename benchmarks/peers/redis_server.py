"""A redis-server of its own in a temporary folder, nothing on disk."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING

import redis

from benchmarks.child_process import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

NOT_INSTALLED = "redis-server is not on PATH (apt-get install redis-server): no redis rows"
START_TIMEOUT_S = 10.0


@contextlib.contextmanager
def redis_server() -> Iterator[int | None]:
    """Runs redis-server and yields its port; yields None if it is not installed."""
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
            _wait_until_up(port, process)
            yield port
        finally:
            process.terminate()
            process.wait()


def _wait_until_up(port: int, process: subprocess.Popen[bytes]) -> None:
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
