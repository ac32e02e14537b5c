"""A durable job without Spark, whose state server can be killed and started again."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Self

import numpy as np
import psutil
import pyarrow as pa

from benchmarks.sink_stage import sink_stage
from queryable_state.client.blocking import QueryableStateClient
from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.server.checkpoint.state_root import StateRoot
from queryable_state.server.coordinator import Coordinator
from queryable_state.server.coordinator.model.job_config import JobConfig
from queryable_state.server.coordinator.settings import CoordinatorSettings
from queryable_state.server.serving.listen_settings import ANY_PORTS
from queryable_state.server.state_server.launch import ensure_server
from queryable_state.server.state_server.settings import StateServerSettings
from queryable_state.server.testing import InMemoryEngine
from queryable_state.streaming import Types
from queryable_state.streaming.runtime.columns.row_check import row_check
from queryable_state.streaming.runtime.states.state_spec import TaskIdentity
from queryable_state.wire.keys.key_groups import KeyGroups

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

    import numpy.typing as npt

    from queryable_state.server.coordinator.checkpoints.history import CheckpointReport
    from queryable_state.server.settings.shared_settings import Backend
    from queryable_state.server.state_server.base.server_directory import ServerAddresses
    from queryable_state.streaming.runtime.stage import StageTask

NAME = "recovery"
MAX_PARALLELISM = 128
ROWS_PER_BATCH = 100_000
_CHECKPOINT_S = 300.0
_CHECKED_KEYS = 2_000


class WrongStateError(Exception):
    """A value of a restored job differs from the written one."""


def key_of(number: int) -> str:
    """A key of 16 bytes."""
    return f"sensor_{number:09}"


def value_of(number: int, revision: int) -> str:
    """The value of a key at a revision: 32 bytes, half of which do not compress."""
    noise = (number * 0x9E3779B97F4A7C15 + revision * 0xBF58476D1CE4E5B9) % 2**60
    return f"{number:09}-{revision:06}-{noise:015x}"


class StoredJob:
    """Coordinator and engine in this process, the state server in its own.

    Two tasks at a time write a batch, as tasks in Spark do. The state root lies in `folder`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        keys: int,
        backend: Backend,
        parallelism: int = 2,
        incremental: bool = True,
    ) -> None:
        self._folder = folder
        self._keys = keys
        self._backend = backend
        self._config = JobConfig(
            state_root=str(folder / "root"),
            backend=backend,
            incremental=incremental,
            # Every byte is in a file, so that the sizes of files count all of them.
            inline_bytes=0,
            checkpoint_interval_ms=0,
        )
        self.parallelism = parallelism
        groups = KeyGroups(Types.STRING(), MAX_PARALLELISM)
        self._groups = np.array([groups.of(key_of(n)) for n in range(keys)], dtype=np.int64)
        self._revisions = np.zeros(keys, dtype=np.int64)
        self._attempts = itertools.count(1)
        self._stack = contextlib.ExitStack()
        self.batch = -1
        """The newest committed batch; -1 if there is none."""

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self._folder.mkdir()
            stack.callback(shutil.rmtree, self._folder, ignore_errors=True)
            self._engine = InMemoryEngine(executors=1)
            self._coordinator = stack.enter_context(
                Coordinator(self._engine, CoordinatorSettings(strict=False, ports="0"))
            )
            self._coordinator.configure("", self._config)
            self._tasks = stack.enter_context(ThreadPoolExecutor(2, "recovery-task"))
            self._server = self.start_server()
            stack.callback(self._wait_for_server)
            self._query_id, self._run_id = self._engine.start(NAME)
            self._task = self._stage()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # The server must have ended before its folder is removed.
        self._stack.close()

    def start_server(self) -> ServerAddresses:
        """Starts the server of the only executor if it does not run."""
        folder = self._folder / "server"
        self._server = ensure_server(
            folder,
            StateServerSettings(
                coordinator_address=self._coordinator.address,
                secret=self._coordinator.secret,
                executor_id="executor",
                directory=str(folder),
                watched_pid=os.getpid(),
                ports=ANY_PORTS,
                backend=self._backend,
            ),
        )
        return self._server

    def kill_server(self, *, with_copies: bool = False) -> None:
        """Kills the server by SIGKILL; `with_copies` also removes its copies of checkpoints."""
        process = psutil.Process(self._server.pid)
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        if with_copies:
            shutil.rmtree(self._folder / "server" / "copies", ignore_errors=True)

    def load(self) -> None:
        """Writes every key."""
        for first in range(0, self._keys, ROWS_PER_BATCH):
            self.write(np.arange(first, min(first + ROWS_PER_BATCH, self._keys)))

    def write(self, numbers: npt.NDArray[np.int64]) -> float:
        """Runs and commits a batch that gives keys their next value; returns its seconds."""
        batch = self.batch + 1
        began = time.perf_counter()
        self._engine.plan(self._query_id, batch, timestamp_ms=time.time_ns() // 1_000_000)
        self._revisions[numbers] += 1
        subtasks = self._groups[numbers].astype(np.int64) * self.parallelism // MAX_PARALLELISM
        running = [
            self._tasks.submit(self._run_task, batch, subtask, numbers[subtasks == subtask])
            for subtask in range(self.parallelism)
        ]
        for task in running:
            task.result()
        self._engine.commit(self._query_id, batch)
        self._coordinator.batch_committed(self._query_id, batch)
        self.batch = batch
        return time.perf_counter() - began

    def checkpoint(self) -> CheckpointReport:
        """Takes a checkpoint of the newest batch."""
        # A batch whose commit is still being published is not in the checkpoint.
        self._coordinator.settle(self._query_id, self.batch, _CHECKPOINT_S)
        made = self._coordinator.trigger_checkpoint(self._query_id, _CHECKPOINT_S)
        return next(
            report
            for report in self._coordinator.checkpoints(self._query_id)
            if report.checkpoint_id == made.checkpoint_id
        )

    def savepoint(self) -> str:
        """Writes a savepoint of the newest batch; returns its URI."""
        self._coordinator.settle(self._query_id, self.batch, _CHECKPOINT_S)
        uri, _ = self._coordinator.trigger_savepoint(
            self._query_id.hex(), str(self._folder / "savepoints"), timeout_s=_CHECKPOINT_S
        )
        return str(uri)

    def run_again(self, parallelism: int) -> None:
        """Ends the query's run and starts another one with a parallelism."""
        self._engine.end(self._query_id)
        _, self._run_id = self._engine.start(NAME, query_id=self._query_id)
        self.parallelism = parallelism
        self._task = self._stage()

    def start_from(self, savepoint: str) -> None:
        """Ends the query and starts a new one, with an id and root of its own, from a savepoint."""
        self._engine.end(self._query_id)
        self._query_id, self._run_id = self._engine.start("from-savepoint")
        self._engine.commit(self._query_id, self.batch)
        root = str(self._folder / "second-root")
        StateRoot(root, storage_of(root)).start_from(
            savepoint, self.batch, job_id=self._query_id, job_name="from-savepoint"
        )
        config = replace(self._config, state_root=root)
        self._coordinator.configure("second", config)
        self._task = self._stage("second")

    def check(self) -> None:
        """Looks up some keys; raises `WrongStateError` if a value is not the written one."""
        numbers = np.random.default_rng(self.batch).choice(
            self._keys, min(self._keys, _CHECKED_KEYS), replace=False
        )
        host, _, port = self._server.proxy.rpartition(":")
        with QueryableStateClient(host, int(port), timeout_s=30) as client:
            states = client.get_kv_states(
                self._query_id.hex(), NAME, [key_of(int(n)) for n in numbers]
            )
        for number, state in zip(numbers, states, strict=True):
            wanted = value_of(int(number), int(self._revisions[number]))
            found = None if state is None else state.value()
            if found != wanted:
                raise WrongStateError(f"{key_of(int(number))} is {found!r}, should be {wanted!r}")

    def some_keys(self, count: int) -> npt.NDArray[np.int64]:
        """Distinct keys, different in each batch."""
        return np.random.default_rng(1000 + self.batch).choice(self._keys, count, replace=False)

    def _stage(self, config_id: str = "") -> StageTask:
        """The stage of the job at its present parallelism."""
        return sink_stage(
            self._coordinator,
            NAME,
            parallelism=self.parallelism,
            max_parallelism=MAX_PARALLELISM,
            config_id=config_id,
        )

    def _run_task(self, batch: int, subtask: int, numbers: Sequence[int]) -> None:
        identity = TaskIdentity(
            query_id=self._query_id,
            run_id=self._run_id,
            batch_id=batch,
            subtask=subtask,
            task_attempt=next(self._attempts),
        )
        rows = self._rows(np.asarray(numbers, dtype=np.int64))
        for _ in self._task(iter([rows]), identity, self._server.backend):
            raise AssertionError("a sink has no output rows")

    def _rows(self, numbers: npt.NDArray[np.int64]) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict(
            {
                "key": [key_of(n) for n in numbers.tolist()],
                "value": [
                    value_of(n, revision)
                    for n, revision in zip(
                        numbers.tolist(), self._revisions[numbers].tolist(), strict=True
                    )
                ],
                "check": pa.array(row_check(numbers << 15, self._groups[numbers])),
            },
            schema=pa.schema(
                [
                    ("key", pa.string()),
                    ("value", pa.string()),
                    ("check", pa.int64()),
                ]
            ),
        )

    def _wait_for_server(self) -> None:
        """Ends the server and waits for it, before the coordinator closes."""
        if psutil.pid_exists(self._server.pid):
            process = psutil.Process(self._server.pid)
            process.terminate()
            psutil.wait_procs([process], timeout=20)
