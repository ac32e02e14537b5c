"""The commit protocol as a model: whatever dies and whenever, each committed batch counts once.

Real coordinators and state servers, joined by calls; a hypothesis machine plays Spark, its tasks
and its crashes. What a key must be as of a batch is the sum of what the batches up to it add.
Every read, of a task or of what is committed on any server, is held against that.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import tempfile
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.protocol.direct import LEASE_MS, MARGIN_MS, Clock, Driver, LoopThread, Server, Servers
from tests.protocol.direct import frames as stream

from queryable_state.internal.v1 import backend_pb2, changes_pb2
from queryable_state.server.checkpoint import layout
from queryable_state.server.checkpoint.layout import ChangelogPath
from queryable_state.server.checkpoint.state_root import StateRoot
from queryable_state.server.checkpoint.storage import storage_of
from queryable_state.server.testing import InMemoryEngine
from queryable_state.server.testing.cluster import declare
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.changelog import write_changelog
from queryable_state.wire.changes import BlockSums, ChangeBlockBuilder
from queryable_state.wire.errors import JobError, QueryableStateError, Reason, RetryLaterError
from queryable_state.wire.key_groups import key_group_range, subtask_of
from queryable_state.wire.records import StateCodecs
from queryable_state.wire.store_keys import VOID_NAMESPACE, record_key

QUERY = b"q" * 16
UID = "counts"
MOST = 8
KEYS = [f"key {number}" for number in range(8)]
STATE = declare("count", "string", "bigint", max_parallelism=MOST)
CODECS = StateCodecs(STATE, pickle_values=True)
WIRE_KEYS = {key: CODECS.key_groups.wire_key(key) for key in KEYS}
GROUPS = {key: wire[0] << 8 | wire[1] for key, wire in WIRE_KEYS.items()}
STORE_KEYS = {key: record_key(wire, VOID_NAMESPACE, b"") for key, wire in WIRE_KEYS.items()}
_NEVER = (Reason.INTERNAL, Reason.CHECKPOINT_FAILED, Reason.CORRUPT)
SUBTASK = st.integers(0, 2)
SERVER = st.integers(0, 2)
PICK = st.integers(0, 7)


def added(batch: int, plan: int, key: str) -> int:
    """What a batch adds to a key, by the offsets it was planned with; 0: it has no row of it."""
    number = int(key.split()[1])
    return (batch * 7 + plan * 13 + number * 5) % 4 * 10 ** (batch % 5)


@dataclass
class Attempt:
    """A task that has begun, and what it read."""

    subtask: backend_pb2.Subtask
    run_id: bytes
    batch: int
    plan: int
    token: changes_pb2.Token
    server: Server
    state_id: int
    values: dict[str, int]


@dataclass
class Batch:
    """The batch Spark runs, or runs again."""

    number: int
    plan: int
    """Which offsets it was planned with."""
    acknowledged: set[int] = field(default_factory=set)
    """Key groups of the subtasks whose tasks have succeeded in this run."""
    in_sink: set[int] | None = None
    """Those whose output the sink has committed, for good; None: it has not."""


class CommitProtocol(RuleBasedStateMachine):
    """One job with a durable root: Spark, its executors and its driver, and who shoots at them."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="protocol", dir=_tmp()))
        self.location = str(self.folder / "spark")
        uri = layout.beside(self.location)
        self.root = StateRoot(uri, storage_of(uri))
        self.runner = LoopThread()
        self.clock = Clock()
        self.servers = Servers(self.runner)
        self.engine = InMemoryEngine()
        self.live: dict[int, Server] = {}
        self.zombies: list[Server] = []
        self.attempts: list[Attempt] = []
        self.damaged: set[int] = set()
        self.numbers = 0
        self.parallelism = 2
        self.batch = Batch(0, 0)
        self.committed = -1
        self.plans: dict[int, int] = {}
        self.required: dict[int, set[int]] = {}
        self.states: dict[int, dict[str, int]] = {-1: dict.fromkeys(KEYS, 0)}
        self.driver = self._new_driver()
        self.run_id = self._new_run()

    def teardown(self) -> None:
        self.finish_and_read_everything()
        self.driver.close()
        for server in [*self.live.values(), *self.zombies]:
            self.runner.run(server.kill())
        self.runner.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    # --- tasks ---

    @rule(index=SUBTASK, near=SERVER)
    def a_task_begins(self, index: int, near: int) -> None:
        self._begin(index % self.parallelism, near)

    @precondition(lambda self: self.attempts)
    @rule(pick=PICK)
    def a_task_seals(self, pick: int) -> None:
        """Of this run or of one that is over, on a server that lives or is cut off."""
        self._seal(self.attempts[pick % len(self.attempts)])

    @rule(near=SERVER)
    def all_tasks_run(self, near: int) -> None:
        for index in range(self.parallelism):
            attempt = self._begin(index, near)
            if attempt is not None:
                self._seal(attempt)

    @rule(near=SERVER, checkpoint=st.booleans())
    def a_whole_batch_runs(self, near: int, checkpoint: bool) -> None:
        self.all_tasks_run(near)
        if self._is_whole():
            self._commit(set(range(MOST)), settle=True)
        if checkpoint and self.driver.roots.of(QUERY) is not None:
            self.a_checkpoint_is_taken()

    @precondition(lambda self: self.attempts)
    @rule(pick=PICK)
    def a_server_dies_between_the_changelog_and_the_acknowledgement(self, pick: int) -> None:
        attempt = self.attempts[pick % len(self.attempts)]
        if attempt.server.name not in self.servers.by_address or attempt.plan != self._plan_of(
            attempt.batch
        ):
            return
        blocks, seal = _changes(attempt)
        first, last = _key_groups(attempt.subtask)
        path = ChangelogPath(
            attempt.batch, UID, first, last, attempt.token.run_epoch, attempt.token.task_attempt
        )
        digest = self.engine.clocks(QUERY, attempt.batch).offsets_digest
        self.root.storage.write(
            self.root.path(layout.changelog_file(path)),
            write_changelog(blocks, seal, batch_id=attempt.batch, offsets_digest=digest),
        )
        self._kill(attempt.server)

    # --- Spark ---

    @precondition(lambda self: self.batch.in_sink is None)
    @rule()
    def the_batch_commits_without_what_did_not_run(self) -> None:
        """As after `limit` in foreachBatch, or after all tasks have run."""
        if self.batch.acknowledged:
            self._commit(set(self.batch.acknowledged), settle=True)

    @precondition(lambda self: self._is_whole())
    @rule(settle=st.booleans())
    def the_batch_commits(self, settle: bool) -> None:
        self._commit(set(range(MOST)), settle=settle)

    @precondition(lambda self: self._is_whole())
    @rule()
    def the_sink_commits_and_spark_does_not(self) -> None:
        self.batch.in_sink = set(range(MOST))

    @precondition(lambda self: self.batch.in_sink is not None)
    @rule()
    def the_sink_skips_a_batch_it_has(self) -> None:
        self._commit(set(self.batch.in_sink or ()), settle=False)

    @rule(parallelism=st.sampled_from([1, 2, 3]))
    def the_query_restarts_in_its_driver(self, parallelism: int) -> None:
        self.parallelism = parallelism
        self.run_id = self._new_run()

    @rule(parallelism=st.sampled_from([1, 2, 3]), cut_off=st.booleans(), replan=st.booleans())
    def the_driver_dies(self, parallelism: int, cut_off: bool, replan: bool) -> None:
        """Servers may live on for a while, and serve the tasks that do."""
        for server in list(self.live.values()):
            if cut_off:
                server.driver = None
                self.zombies.append(server)
            else:
                self.runner.run(server.kill())
        self.live.clear()
        self.driver.close()
        self.driver = self._new_driver()
        self.parallelism = parallelism
        if replan and self.batch.in_sink is None:
            self.batch = Batch(self.batch.number, self.batch.plan + 1)
        self.run_id = self._new_run()

    @precondition(lambda self: self.committed >= 1)
    @rule(back=st.integers(1, 2))
    def the_spark_checkpoint_is_set_back(self, back: int) -> None:
        """Where the root reaches so far: its driver ends, and batches are planned anew."""
        begins = max(0, self.committed + 1 - back)
        checkpoints = self.root.checkpoints()
        reached = [c for c in checkpoints if c.version < begins]
        intact = [c for c in reached if c.checkpoint_id not in self.damaged]
        if self.batch.in_sink is not None or (checkpoints and not intact):
            return
        self.damaged &= {c.checkpoint_id for c in reached}
        self.committed = begins - 1
        for batch in [batch for batch in self.states if batch >= begins]:
            del self.states[batch]
        for known in (self.plans, self.required):
            for batch in [batch for batch in known if batch >= begins]:
                del known[batch]
        self.engine = InMemoryEngine()
        plan = self.batch.plan + 1
        self.the_driver_dies(self.parallelism, cut_off=False, replan=False)
        self.attempts.clear()
        self.batch = Batch(begins, plan)
        self._plan()

    @precondition(lambda self: self.driver.roots.of(QUERY) is not None)
    @rule()
    def a_checkpoint_is_taken(self) -> None:
        with contextlib.suppress(QueryableStateError):
            self.driver.checkpointing.checkpointer.trigger(QUERY, 0.2)

    @precondition(lambda self: len(self._intact()) > 1)
    @rule()
    def the_newest_checkpoint_is_damaged(self) -> None:
        """Another one is intact, and the changelogs after it are there."""
        newest = self._intact()[0]
        self.damaged.add(newest)
        folder = Path(self.root.path(layout.checkpoint_folder(newest)))
        for file in [f for f in folder.rglob("*") if f.is_file() and f.name != layout.METADATA]:
            data = file.read_bytes()
            file.unlink()
            file.write_bytes(data[: len(data) // 2])

    # --- servers ---

    @precondition(lambda self: self.live)
    @rule(pick=PICK)
    def a_server_is_killed(self, pick: int) -> None:
        self._kill(self._live(pick))

    @precondition(lambda self: self.live)
    @rule(pick=PICK)
    def a_server_is_cut_off(self, pick: int) -> None:
        self._live(pick).driver = None

    @precondition(lambda self: any(server.driver is None for server in self.live.values()))
    @rule()
    def servers_are_reached_again(self) -> None:
        for server in list(self.live.values()):
            server.driver = self.driver
            self._renew(server)

    @rule(ms=st.sampled_from([1_000, LEASE_MS // 2, LEASE_MS + MARGIN_MS + 200]))
    def time_passes(self, ms: int) -> None:
        """Those that are reached renew in time."""
        while ms > 0:
            step = min(ms, 1_000)
            self.driver.advance(step)
            ms -= step
            for server in list(self.live.values()):
                self._renew(server)

    # --- what must hold ---

    @invariant()
    def every_committed_read_is_what_the_batches_add_up_to(self) -> None:
        self._learn()
        for server in list(self.servers.by_address.values()):
            self.runner.run(self._check_server(server))

    def finish_and_read_everything(self) -> None:
        """In the end the job can go on, and all of its state is there."""
        self.time_passes(LEASE_MS + MARGIN_MS + 200)
        for server in list(self.live.values()):
            server.driver = self.driver
        if self.batch.in_sink is not None:
            self.the_sink_skips_a_batch_it_has()
        for _ in range(40):
            missing = [
                i
                for i in range(self.parallelism)
                if not set(_range(i, self.parallelism)) <= self.batch.acknowledged
            ]
            if not missing:
                break
            self.time_passes(500)
            for index in missing:
                attempt = self._begin(index, 0)
                if attempt is not None:
                    self._seal(attempt)
        assert self._is_whole(), "the job cannot go on"
        self._commit(set(range(MOST)), settle=True)
        self._learn()
        assert self.committed in self.states
        self.every_committed_read_is_what_the_batches_add_up_to()

    # --- how ---

    def _new_driver(self) -> Driver:
        return Driver(self.engine, self.clock, self.servers)

    def _new_run(self) -> bytes:
        _, run_id = self.engine.start(
            "job", query_id=QUERY, run_id=uuid.uuid4().bytes, checkpoint_location=self.location
        )
        acknowledged = self.batch.in_sink
        self.batch = Batch(self.batch.number, self.batch.plan, in_sink=acknowledged)
        self._plan()
        return run_id

    def _plan(self) -> None:
        for number in range(self.batch.number + 1):
            plan = self._plan_of(number)
            self.engine.plan(QUERY, number, offsets=f"{number} of plan {plan}".encode())

    def _plan_of(self, number: int) -> int:
        return self.batch.plan if number == self.batch.number else self.plans.get(number, 0)

    def _live(self, pick: int) -> Server:
        return self.live[sorted(self.live)[pick % len(self.live)]]

    def _intact(self) -> list[int]:
        root = self.driver.roots.of(QUERY)
        ids = [c.checkpoint_id for c in root.checkpoints()] if root else []
        return [number for number in ids if number not in self.damaged]

    def _is_whole(self) -> bool:
        return self.batch.in_sink is None and len(self.batch.acknowledged) == MOST

    def _server(self, number: int) -> Server | None:
        """The state server of an executor, started where there is none."""
        server = self.live.get(number)
        if server is not None and server.has_ended:
            self._kill(server)
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

    def _kill(self, server: Server) -> None:
        for number, known in list(self.live.items()):
            if known is server:
                del self.live[number]
        self.engine.set_executors(max(1, len(self.live)))
        if server in self.zombies:
            self.zombies.remove(server)
        self.runner.run(server.kill())

    def _renew(self, server: Server) -> None:
        try:
            self.runner.run(server.heartbeats.renew())
        except QueryableStateError:
            if server.has_ended:
                self._kill(server)

    def _begin(self, index: int, near: int) -> Attempt | None:
        asked = self._server(near)
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
        try:
            attempt = self.runner.run(self._begun(asked, subtask, self.numbers))
        except QueryableStateError as refusal:
            if isinstance(refusal, JobError) or refusal.reason in _NEVER:
                raise
            return None
        self._learn()
        expected = self.states[attempt.batch - 1]
        for key, value in attempt.values.items():
            assert value == expected[key], f"a task read {key!r} of batch {attempt.batch - 1}"
        self.attempts.append(attempt)
        del self.attempts[:-8]
        return attempt

    async def _begun(self, asked: Server, subtask: backend_pb2.Subtask, number: int) -> Attempt:
        request = backend_pb2.LocateSubtaskRequest(subtask=subtask)
        owner = await asked.call("LocateSubtask", request)
        server = self.servers.by_address.get(owner.address)
        if server is None:
            request.not_server_id = owner.server_id
            owner = await asked.call("LocateSubtask", request)
            server = self.servers.by_address.get(owner.address)
        if server is None:
            raise RetryLaterError("the owner is gone, and its lease is not over")
        begin = backend_pb2.BeginRequest(
            subtask=subtask,
            run_id=self.run_id,
            batch_id=self.batch.number,
            task_attempt=number,
            operator_depth=1,
            operator_name=UID,
            states=[_declared()],
        )
        begun = await server.call("Begin", begin)
        (state,) = begun.states
        keys = [key for key in KEYS if _index(key, subtask.parallelism) == subtask.index]
        fetch = backend_pb2.FetchRequest(
            subtask=subtask,
            batch_id=self.batch.number,
            token=begun.token,
            fetches=[
                backend_pb2.StateFetch(
                    state_id=state.state_id,
                    read=query_pb2.POINT,
                    keys=[STORE_KEYS[key] for key in keys],
                )
            ],
        )
        (result,) = (await server.call("Fetch", fetch)).results
        found = iter(result.values)
        missing = set(result.missing)
        values = {
            key: 0 if position in missing else CODECS.value.decode(next(found))
            for position, key in enumerate(keys)
        }
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

    def _seal(self, attempt: Attempt) -> None:
        blocks, seal = _changes(attempt)
        opening = backend_pb2.PrepareOpen(
            subtask=attempt.subtask, batch_id=attempt.batch, token=attempt.token
        )
        parts = [
            backend_pb2.PrepareRequest(open=opening),
            *(backend_pb2.PrepareRequest(block=block) for block in blocks),
            backend_pb2.PrepareRequest(seal=seal),
        ]
        try:
            self.runner.run(attempt.server.call("Prepare", stream(parts)))
        except QueryableStateError as refusal:
            if refusal.reason in _NEVER:
                raise
            if refusal.reason != Reason.UNAVAILABLE and attempt in self.attempts:
                self.attempts.remove(attempt)
            return
        if (attempt.run_id, attempt.batch) == (self.run_id, self.batch.number):
            assert attempt.plan == self.batch.plan
            first, last = _key_groups(attempt.subtask)
            self.batch.acknowledged |= set(range(first, last + 1))

    def _commit(self, required: set[int], *, settle: bool) -> None:
        number = self.batch.number
        self.engine.commit(QUERY, number)
        self.committed = number
        self.plans[number], self.required[number] = self.batch.plan, required
        self.batch = Batch(number + 1, 0)
        self._plan()
        if settle:
            self.driver.authority.settle(QUERY, number, 10.0)
            self._learn()

    def _learn(self) -> None:
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

    async def _check_server(self, server: Server) -> None:
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


def _changes(attempt: Attempt) -> tuple[list[bytes], changes_pb2.Seal]:
    sums = BlockSums()
    builder = ChangeBlockBuilder(attempt.state_id, sums)
    for key, value in attempt.values.items():
        more = added(attempt.batch, attempt.plan, key)
        if more:
            builder.put(STORE_KEYS[key], CODECS.value.encode(value + more))
    blocks = list(builder.finish())
    return blocks, sums.seal(attempt.token, fingerprint=attempt.plan, row_count=len(blocks))


def _declared() -> registration_pb2.StateRegistration:
    state = registration_pb2.StateRegistration()
    state.CopyFrom(STATE)
    state.operator_uid = UID
    return state


def _index(key: str, parallelism: int) -> int:
    return subtask_of(GROUPS[key], parallelism, MOST)


def _key_groups(subtask: backend_pb2.Subtask) -> tuple[int, int]:
    return key_group_range(subtask.index, subtask.parallelism, subtask.max_parallelism)


def _range(index: int, parallelism: int) -> range:
    first, last = key_group_range(index, parallelism, MOST)
    return range(first, last + 1)


def _tmp() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


CommitProtocol.TestCase.settings = settings(
    max_examples=25,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


class TestCommitProtocol(CommitProtocol.TestCase):  # type: ignore[name-defined,misc]
    """The machine as a test."""
