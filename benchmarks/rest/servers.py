"""A state server and a stand-alone proxy with REST, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterator


class Servers(NamedTuple):
    """Where the proxy answers, and its process."""

    grpc_address: str
    web_address: str
    process: psutil.Process


@contextmanager
def servers(*, jobs: int = 1) -> Iterator[Servers]:
    """A state server with some jobs and a stand-alone proxy, each in a process of its own."""
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.rest.cluster_process", str(jobs)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as cluster:
        assert cluster.stdout is not None
        coordinator, secret = cluster.stdout.readline().split()
        with subprocess.Popen(
            [
                *(sys.executable, "-m", "queryable_state.cli", "proxy"),
                *("--coordinator", coordinator, "--port", "0", "--web-port", "0"),
                *("--lame-duck", "0"),
            ],
            env=os.environ | {"QUERYABLE_STATE_SECRET": secret},
            stdout=subprocess.PIPE,
            text=True,
        ) as proxy:
            assert proxy.stdout is not None
            said = [proxy.stdout.readline().split()[-1] for _ in range(2)]
            try:
                yield Servers(said[0], said[1], psutil.Process(proxy.pid))
            finally:
                proxy.terminate()
                assert cluster.stdin is not None
                cluster.stdin.close()
