"""Spark as the model plays it: a query, its runs and batches, its tasks and executors."""

from __future__ import annotations

import itertools
import shutil
import tempfile
import uuid
from pathlib import Path

from hypothesis.stateful import RuleBasedStateMachine
from tests.protocol.counted import (
    CODECS,
    GROUPS,
    KEYS,
    MOST,
    QUERY,
    STORE_KEYS,
    UID,
    Attempt,
    Batch,
    added,
    changes_of,
    declared,
    key_groups_of,
)
from tests.protocol.drivers import Driver
from tests.protocol.loop import Clock
from tests.protocol.servers import Server, Servers, frames
from tests.protocol.task_calls import owner_of, values_of

from queryable_state.internal.v1 import backend_pb2
from queryable_state.server.checkpoint import layout
from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.server.checkpoint.state_root import StateRoot
from queryable_state.server.testing import InMemoryEngine
from queryable_state.wire.calls.loop_thread import LoopThread
from queryable_state.wire.errors import JobError, QueryableStateError, Reason

_NEVER = (
    Reason.INTERNAL,
    Reason.CHECKPOINT_FAILED,
    Reason.STORAGE_WRITE_FAILED,
    Reason.CORRUPT,
)


class Spark(RuleBasedStateMachine):
    """One job with a durable root, and what its batches must add up to."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="protocol", dir=_tmp()))
        self.location = str(self.folder / "spark")
        uri = layout.beside(self.location)
        self.root = StateRoot(uri, storage_of(uri))
        self.runner = LoopThread("model")
        self.clock = Clock()
        self.servers = Servers(self.runner)
        self.engine = InMemoryEngine()
        self.live: dict[int, Server] = {}
        self.zombies: list[Server] = []
        self.attempts: list[Attempt] = []
        self.damaged: set[int] = set()
        self.numbers = 0
        self.executions = itertools.count(1)
        self.parallelism = 2
        self.batch = Batch(0, 0)
        self.committed = -1
        self.plans: dict[int, int] = {}
        self.required: dict[int, set[int]] = {}
        self.states: dict[int, dict[str, int]] = {-1: dict.fromkeys(KEYS, 0)}
        self.driver = self.new_driver()
        self.run_id = self.new_run()

    def close(self) -> None:
        """Ends all that runs, and removes the root."""
        self.driver.close()
        for server in [*self.live.values(), *self.zombies]:
            self.runner.run(server.kill())
        self.runner.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def new_driver(self) -> Driver:
        return Driver(self.engine, self.clock, self.servers)

    def new_run(self) -> bytes:
        _, run_id = self.engine.start(
            "job", query_id=QUERY, run_id=uuid.uuid4().bytes, checkpoint_location=self.location
        )
        acknowledged = self.batch.in_sink
        self.batch = Batch(self.batch.number, self.batch.plan, in_sink=acknowledged)
        self.plan_batches()
        return run_id

    def plan_batches(self) -> None:
        for number in range(self.batch.number + 1):
            plan = self.plan_of(number)
            self.engine.plan(QUERY, number, offsets=f"{number} of plan {plan}".encode())

    def plan_of(self, number: int) -> int:
        return self.batch.plan if number == self.batch.number else self.plans.get(number, 0)

    def pick_live(self, pick: int) -> Server:
        return self.live[sorted(self.live)[pick % len(self.live)]]

    def intact(self) -> list[int]:
        root = self.driver.roots.of(QUERY)
        ids = [c.checkpoint_id for c in root.checkpoints()] if root else []
        return [number for number in ids if number not in self.damaged]

    def is_whole(self) -> bool:
        return self.batch.in_sink is None and len(self.batch.acknowledged) == MOST

    def server_of(self, number: int) -> Server | None:
        """The state server of an executor, started where there is none."""
        server = self.live.get(number)
        if server is not None and server.has_ended:
            self.kill(server)
            server = None
        if server is None:
            self.numbers += 1
            name = f"server {self.numbers}"
            server = self.runner.run(self._start(name, number))
            server.driver = self.driver
            self.live[number] = server
            self.engine.set_executors(len(self.live))
            self.runner.run(server.heartbeats.register())
        return server

    async def _start(self, name: str, executor: int) -> Server:
        return Server(name, f"executor {executor}", self.folder / name, self.servers, self.clock)

    def kill(self, server: Server) -> None:
        for number, known in list(self.live.items()):
            if known is server:
                del self.live[number]
        self.engine.set_executors(max(1, len(self.live)))
        if server in self.zombies:
            self.zombies.remove(server)
        self.runner.run(server.kill())

    def renew(self, server: Server) -> None:
        try:
            self.runner.run(server.heartbeats.renew())
        except QueryableStateError:
            if server.has_ended:
                self.kill(server)

    def begin(self, index: int, near: int) -> Attempt | None:
        asked = self.server_of(near)
        if asked is None:
            return None
        subtask = backend_pb2.Subtask(
            query_id=QUERY,
            operator_uid=UID,
            index=index,
            parallelism=self.parallelism,
            max_parallelism=MOST,
        )
        self.numbers += 1
        return self._take(asked, subtask, self.numbers)

    def begin_again(self, attempt: Attempt, near: int) -> Attempt | None:
        """The same task attempt, which runs the operator once more."""
        asked = self.server_of(near)
        if asked is None or (attempt.run_id, attempt.batch) != (self.run_id, self.batch.number):
            return None
        return self._take(asked, attempt.subtask, attempt.token.task_attempt)

    def _take(self, asked: Server, subtask: backend_pb2.Subtask, number: int) -> Attempt | None:
        try:
            attempt = self.runner.run(self._begun(asked, subtask, number))
        except QueryableStateError as refusal:
            if refusal.reason == Reason.SUBTASK_MISMATCH:
                assert number in {known.token.task_attempt for known in self.attempts}
            elif isinstance(refusal, JobError) or refusal.reason in _NEVER:
                raise
            return None
        self.learn()
        expected = self.states[attempt.batch - 1]
        for key, value in attempt.values.items():
            assert value == expected[key], f"a task read {key!r} of batch {attempt.batch - 1}"
        self.attempts.append(attempt)
        del self.attempts[:-8]
        return attempt

    async def _begun(self, asked: Server, subtask: backend_pb2.Subtask, number: int) -> Attempt:
        server = await owner_of(subtask, asked, self.servers)
        begin = backend_pb2.BeginRequest(
            subtask=subtask,
            run_id=self.run_id,
            batch_id=self.batch.number,
            task_attempt=number,
            operator_depth=1,
            operator_name=UID,
            states=[declared()],
            execution=next(self.executions),
        )
        begun = await server.call("Begin", begin)
        (state,) = begun.states
        values = await values_of(server, subtask, self.batch.number, begun.token, state.state_id)
        return Attempt(
            subtask,
            self.run_id,
            self.batch.number,
            self.batch.plan,
            begun.token,
            server,
            state.state_id,
            values,
        )

    def seal(self, attempt: Attempt, wrong: int = 0) -> bool:
        """Whether the seal was acknowledged."""
        blocks, seal = changes_of(attempt, wrong)
        opening = backend_pb2.PrepareOpen(
            subtask=attempt.subtask, batch_id=attempt.batch, token=attempt.token
        )
        parts = [
            backend_pb2.PrepareRequest(open=opening),
            *(backend_pb2.PrepareRequest(block=block) for block in blocks),
            backend_pb2.PrepareRequest(seal=seal),
        ]
        try:
            self.runner.run(attempt.server.call("Prepare", frames(parts)))
        except QueryableStateError as refusal:
            if refusal.reason in _NEVER:
                raise
            if wrong:
                return False
            if refusal.reason != Reason.UNAVAILABLE and attempt in self.attempts:
                self.attempts.remove(attempt)
            return False
        attempt.acknowledged = True
        if (attempt.run_id, attempt.batch) == (self.run_id, self.batch.number):
            assert attempt.plan == self.batch.plan
            first, last = key_groups_of(attempt.subtask)
            self.batch.acknowledged |= set(range(first, last + 1))
        return True

    def commit(self, required: set[int], *, settle: bool) -> None:
        number = self.batch.number
        self.engine.commit(QUERY, number)
        self.committed = number
        self.plans[number], self.required[number] = self.batch.plan, required
        self.batch = Batch(number + 1, 0)
        self.plan_batches()
        if settle:
            self.driver.commits.settle(QUERY, number, 10.0)
            self.learn()

    def learn(self) -> None:
        """What a committed batch came to be made of, once its manifest says so, for good."""
        for batch in range(self.committed + 1):
            if batch in self.states:
                continue
            manifest = self.root.manifest(batch)
            if manifest is None:
                return
            counted = {
                group
                for file in manifest.changelogs
                for group in range(file.first_key_group, file.last_key_group + 1)
            }
            lost = self.required[batch] - counted
            assert not lost, f"batch {batch} was acknowledged for {lost}, and is without"
            self.states[batch] = {
                key: value + (added(batch, self.plans[batch], key) if GROUPS[key] in counted else 0)
                for key, value in self.states[batch - 1].items()
            }

    async def check_server(self, server: Server) -> None:
        job = server.table.job(QUERY)
        if job is None or not server.lease.holds():
            return
        version = job.committed_version
        assert version <= self.committed, "a server has committed what Spark has not"
        expected = self.states.get(version)
        if expected is None:
            return
        for owned in job.subtasks.values():
            assert owned.complete_since_batch == 0
            for state_id in owned.states:
                read = owned.store.reader(state_id, False)
                for key in KEYS:
                    if owned.first_key_group <= GROUPS[key] <= owned.last_key_group:
                        raw = read(STORE_KEYS[key])
                        value = 0 if raw is None else CODECS.value.decode(raw)
                        assert value == expected[key], (
                            f"{owned.id} on {server.name} has {value} of {key!r} at batch "
                            f"{version}, and {expected[key]} is right"
                        )


def _tmp() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
