"""The writing side of a job without Spark: the real tasks, coordinator and state servers.

Without Spark's scheduling a batch commits in milliseconds, so that the figures are of the servers.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import psutil
import pyarrow as pa

from benchmarks.certificates import certificates
from benchmarks.query.dataset import MAX_PARALLELISM, QUERYABLE_NAME
from benchmarks.sink_stage import sink_stage
from queryable_state.server.coordinator import Coordinator
from queryable_state.server.coordinator.settings import CoordinatorSettings
from queryable_state.server.security.access.access_settings import AccessSettings
from queryable_state.server.security.access.tokens import digest_of
from queryable_state.server.security.tls_settings import TlsSettings
from queryable_state.server.serving.listen_settings import ANY_PORTS
from queryable_state.server.state_server.launch import ensure_server
from queryable_state.server.state_server.settings import StateServerSettings
from queryable_state.server.testing import InMemoryEngine
from queryable_state.streaming import Types
from queryable_state.streaming.runtime.columns.row_check import row_check
from queryable_state.streaming.runtime.states.state_spec import TaskIdentity
from queryable_state.wire.keys.key_groups import KeyGroups

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    import numpy.typing as npt

    from benchmarks.query.dataset import Records
    from queryable_state.server.settings.shared_settings import Backend
    from queryable_state.server.state_server.base.server_directory import ServerAddresses

PARALLELISM = 2


class JobTarget:
    """Coordinator and engine in this process, state servers and a proxy in theirs.

    A revision is a batch: the task of each subtask begins, prepares and seals as in a Spark
    worker, then the engine commits.
    """

    def __init__(
        self,
        dataset: Records,
        *,
        backend: Backend,
        servers: int,
        tls: bool = False,
        token: bool = False,
    ) -> None:
        """`tls`: on every port, with certificates made on the spot. `token`: callers need one."""
        self._uses_tls = tls
        self._token = secrets.token_hex(16) if token else ""
        self._dataset = dataset
        self._backend = backend
        self._servers = servers
        self._stack = contextlib.ExitStack()
        groups = KeyGroups(Types.STRING(), MAX_PARALLELISM)
        self._groups = np.array([groups.of(key) for key in dataset.keys], dtype=np.int64)
        self._subtasks = self._groups * PARALLELISM // MAX_PARALLELISM
        self._addresses: list[ServerAddresses] = []
        self._attempts = itertools.count(1)

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-job-")))
            self._tls = certificates(folder) if self._uses_tls else TlsSettings()
            self._access = self._access_settings(folder)
            stack.callback(self._wait_for_servers)
            self._engine = InMemoryEngine(executors=self._servers)
            self._coordinator = stack.enter_context(
                Coordinator(
                    self._engine,
                    CoordinatorSettings(strict=False, secret="", ports="0", tls=self._tls),
                )
            )
            self._addresses = [
                ensure_server(folder / str(number), self._settings(folder / str(number)))
                for number in range(self._servers)
            ]
            self._proxy = stack.enter_context(self._stand_alone_proxy())
            self._query_id, self._run_id = self._engine.start("benchmark")
            self._task = sink_stage(
                self._coordinator,
                QUERYABLE_NAME,
                parallelism=PARALLELISM,
                max_parallelism=MAX_PARALLELISM,
                tls=self._tls.tls_for_calls,
            )
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _wait_for_servers(self) -> None:
        """Waits until the servers have removed their files and ended."""
        ending = [
            psutil.Process(each.pid) for each in self._addresses if psutil.pid_exists(each.pid)
        ]
        psutil.wait_procs(ending, timeout=20)

    def describe(self) -> dict[str, object]:
        """Job id, proxies and pids of the servers, the stand-alone proxy, with TLS the file
        of the authority, and the token of callers if they need one."""
        return {
            "job_id": self._query_id.hex(),
            "proxies": [address.proxy for address in self._addresses],
            "pids": [address.pid for address in self._addresses],
            "stand_alone_proxy": self._proxy,
            "ca": self._tls.tls_ca,
            "token": self._token,
        }

    def write(self, revision: int, numbers: list[int]) -> None:
        """Runs the batch of a revision and commits it."""
        now_ms = time.time_ns() // 1_000_000
        self._engine.plan(self._query_id, revision, timestamp_ms=now_ms)
        chosen = np.array(numbers)
        for subtask in range(PARALLELISM):
            own = chosen[self._subtasks[chosen] == subtask]
            identity = TaskIdentity(
                query_id=self._query_id,
                run_id=self._run_id,
                batch_id=revision,
                subtask=subtask,
                task_attempt=next(self._attempts),
            )
            server = self._addresses[subtask % len(self._addresses)]
            for _ in self._task(iter([self._rows(revision, own)]), identity, server.backend):
                raise AssertionError("a sink has no output rows")
        self._engine.commit(self._query_id, revision)
        self._coordinator.batch_committed(self._query_id, revision)

    def _rows(self, revision: int, numbers: npt.NDArray[np.int64]) -> pa.RecordBatch:
        value = self._dataset.value
        return pa.RecordBatch.from_pydict(
            {
                "key": [self._dataset.keys[number] for number in numbers],
                "value": [value(int(number), revision) for number in numbers],
                "check": pa.array(row_check(numbers.astype(np.int64) << 15, self._groups[numbers])),
            }
        )

    def _settings(self, folder: Path) -> StateServerSettings:
        return StateServerSettings(
            coordinator_address=self._coordinator.address,
            secret=self._coordinator.secret,
            executor_id=folder.name,
            directory=str(folder),
            watched_pid=os.getpid(),
            ports=ANY_PORTS,
            backend=self._backend,
            tls=self._tls,
            access=self._access,
        )

    def _access_settings(self, folder: Path) -> AccessSettings:
        """Callers with the token may read; without one the settings are the defaults."""
        if not self._token:
            return AccessSettings()
        rules = folder / "access.toml"
        grant = 'callers = ["benchmark"]\njobs = ["*"]\nstates = ["*"]\nkinds = ["read"]\n'
        token = f'[tokens]\nbenchmark = "{digest_of(self._token)}"\n'
        rules.write_text(f"{token}[[grants]]\n{grant}")
        return AccessSettings(access_file=str(rules))

    @contextlib.contextmanager
    def _stand_alone_proxy(self) -> Iterator[str]:
        """Runs `queryable-state proxy` and yields its address."""
        command = Path(sys.executable).with_name("queryable-state")
        process = subprocess.Popen(
            [
                *(command, "proxy", "--coordinator", self._coordinator.address, "--port", "0"),
                f"--tls-certificate={self._tls.tls_certificate}",
                *(f"--tls-key={self._tls.tls_key}", f"--tls-ca={self._tls.tls_ca}"),
                f"--access-file={self._access.access_file}",
            ],
            env={**os.environ, "QUERYABLE_STATE_SECRET": self._coordinator.secret},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdout is not None
        try:
            with process.stdout as stdout:
                line = stdout.readline()
            if not line.startswith("proxy at "):
                raise RuntimeError(f"the proxy did not start: {line!r}")
            yield line.removeprefix("proxy at ").strip()
        finally:
            process.terminate()
            process.wait()
