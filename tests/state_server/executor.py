"""One executor: its folder, its JVM, its Python workers and the server they start."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import grpc
from tests.waiting import DEADLINE_S, until

from queryable_state.server.serving.listen_settings import ANY_PORTS
from queryable_state.server.state_server.base.parent_process import start_ticks
from queryable_state.server.state_server.base.server_directory import (
    ServerAddresses,
    ServerDirectory,
)
from queryable_state.server.state_server.launch import ensure_server
from queryable_state.server.state_server.settings import StateServerSettings
from queryable_state.v1 import query_pb2, query_pb2_grpc

if TYPE_CHECKING:
    from pathlib import Path

    from queryable_state.server.testing import InProcessCoordinator


SPAWNER = """
import json, sys
from dataclasses import asdict, replace
from pathlib import Path
from queryable_state.server.state_server.settings import StateServerSettings
from queryable_state.server.state_server.launch import ensure_server
settings = StateServerSettings.from_json(sys.stdin.readline())
print(json.dumps(asdict(ensure_server(Path(settings.directory), settings))), flush=True)
sys.stdin.read()
"""


class Executor:
    """The folder of one executor, its JVM (any process) and its Python workers."""

    def __init__(self, coordinator: InProcessCoordinator, path: Path) -> None:
        self.jvm = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        self.directory = ServerDirectory(path)
        self.settings = StateServerSettings(
            coordinator_address=coordinator.address,
            secret=coordinator.secret,
            executor_id=path.name,
            directory=str(path),
            watched_pid=self.jvm.pid,
            watched_start_ticks=start_ticks(self.jvm.pid),
            ports=ANY_PORTS,
            lame_duck_s=0.0,
            backend="rocksdb",
        )
        self.workers: list[subprocess.Popen[bytes]] = []

    def worker(self) -> subprocess.Popen[bytes]:
        """Starts a worker that wants the server, and lives on."""
        worker = subprocess.Popen(
            [sys.executable, "-c", SPAWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.workers.append(worker)
        assert worker.stdin is not None
        worker.stdin.write(self.settings.to_json().encode() + b"\n")
        worker.stdin.flush()
        return worker

    def ensure(self) -> ServerAddresses:
        """Asks for the server from this process."""
        return ensure_server(self.directory.path, self.settings, timeout_s=DEADLINE_S)

    def end(self) -> None:
        """Kills the JVM; the server follows."""
        for process in (self.jvm, *self.workers):
            process.kill()
            process.communicate()
        until(lambda: not self.directory.is_held())


def addresses_of(worker: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert worker.stdout is not None
    answered: dict[str, Any] = json.loads(worker.stdout.readline())
    return answered


def answers(addresses: ServerAddresses) -> bool:
    """Whether the server is there, asked over its query port."""
    with grpc.insecure_channel(addresses.query) as channel:
        stub = query_pb2_grpc.QueryableStateStub(channel)
        stub.ListJobs(query_pb2.ListJobsRequest(), timeout=DEADLINE_S, wait_for_ready=True)
    return True
