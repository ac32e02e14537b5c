"""The commit protocol as a model: whatever dies and whenever, each committed batch counts once.

Real coordinators and state servers, joined by calls; a hypothesis machine plays Spark, its tasks
and its crashes. What a key must be as of a batch is the sum of what the batches up to it add.
Every read, of a task or of what is committed on any server, is held against that.
"""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule
from tests.protocol.counted import (
    MOST,
    QUERY,
    UID,
    Batch,
    changes_of,
    groups_of_subtask,
    key_groups_of,
)
from tests.protocol.drivers import LEASE_MS, MARGIN_MS
from tests.protocol.spark import Spark

from queryable_state.server.checkpoint import layout
from queryable_state.server.checkpoint.layout import ChangelogPath
from queryable_state.server.testing import InMemoryEngine
from queryable_state.wire.changelog import write_changelog
from queryable_state.wire.errors import QueryableStateError

SUBTASK = st.integers(0, 2)
SERVER = st.integers(0, 2)
PICK = st.integers(0, 7)


class CommitProtocol(Spark):
    """Spark, its executors and its driver, and who shoots at them."""

    def teardown(self) -> None:
        try:
            self.finish_and_read_everything()
        finally:
            self.close()

    # --- tasks ---

    @rule(index=SUBTASK, near=SERVER)
    def a_task_begins(self, index: int, near: int) -> None:
        self.begin(index % self.parallelism, near)

    @precondition(lambda self: self.attempts)
    @rule(pick=PICK)
    def a_task_seals(self, pick: int) -> None:
        """Of this run or of one that is over, on a server that lives or is cut off."""
        self.seal(self.attempts[pick % len(self.attempts)])

    @precondition(lambda self: any(attempt.acknowledged for attempt in self.attempts))
    @rule(pick=PICK, near=SERVER, again=st.booleans())
    def a_task_that_has_sealed_seals_something_else(
        self, pick: int, near: int, again: bool
    ) -> None:
        """As two subtasks do that Spark runs in one task: the same token, other changes."""
        sealed = [attempt for attempt in self.attempts if attempt.acknowledged]
        attempt = sealed[pick % len(sealed)]
        another = self.begin_again(attempt, near) if again else attempt
        if another is None:
            return
        if another.token == attempt.token:
            assert not self.seal(another, wrong=1000)
        if another is not attempt and another in self.attempts:
            self.attempts.remove(another)

    @rule(near=SERVER)
    def all_tasks_run(self, near: int) -> None:
        for index in range(self.parallelism):
            attempt = self.begin(index, near)
            if attempt is not None:
                self.seal(attempt)

    @rule(near=SERVER, end=st.sampled_from(["settled", "unheard", "in sink", "checkpoint"]))
    def a_whole_batch_runs(self, near: int, end: str) -> None:
        """Its end may be heard of, or not before the next begin, or be only the sink's."""
        self.all_tasks_run(near)
        if self.is_whole() and end == "in sink":
            self.the_sink_commits_and_spark_does_not()
        elif self.is_whole():
            self.commit(set(range(MOST)), settle=end != "unheard")
        if end == "checkpoint" and self.driver.roots.of(QUERY) is not None:
            self.a_checkpoint_is_taken()

    @precondition(lambda self: self.attempts)
    @rule(pick=PICK)
    def a_server_dies_between_the_changelog_and_the_acknowledgement(self, pick: int) -> None:
        attempt = self.attempts[pick % len(self.attempts)]
        if attempt.server.name not in self.servers.by_address or attempt.plan != self.plan_of(
            attempt.batch
        ):
            return
        blocks, seal = changes_of(attempt)
        first, last = key_groups_of(attempt.subtask)
        path = ChangelogPath(
            attempt.batch, UID, first, last, attempt.token.run_epoch, attempt.token.task_attempt
        )
        digest = self.engine.clocks(QUERY, attempt.batch).offsets_digest
        self.root.storage.write(
            self.root.path(layout.changelog_file(path)),
            write_changelog(blocks, seal, batch_id=attempt.batch, offsets_digest=digest),
        )
        self.kill(attempt.server)

    # --- Spark ---

    @precondition(lambda self: self.batch.in_sink is None)
    @rule()
    def the_batch_commits_without_what_did_not_run(self) -> None:
        """As after `limit` in foreachBatch, or after all tasks have run."""
        if self.batch.acknowledged:
            self.commit(set(self.batch.acknowledged), settle=True)

    @precondition(lambda self: self.is_whole())
    @rule(settle=st.booleans())
    def the_batch_commits(self, settle: bool) -> None:
        self.commit(set(range(MOST)), settle=settle)

    @precondition(lambda self: self.is_whole())
    @rule()
    def the_sink_commits_and_spark_does_not(self) -> None:
        self.batch.in_sink = set(range(MOST))

    @precondition(lambda self: self.batch.in_sink is not None)
    @rule()
    def the_sink_skips_a_batch_it_has(self) -> None:
        self.commit(set(self.batch.in_sink or ()), settle=False)

    @rule(parallelism=st.sampled_from([1, 2, 3]))
    def the_query_restarts_in_its_driver(self, parallelism: int) -> None:
        self.parallelism = parallelism
        self.run_id = self.new_run()

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
        self.driver = self.new_driver()
        self.parallelism = parallelism
        if replan and self.batch.in_sink is None:
            self.batch = Batch(self.batch.number, self.batch.plan + 1)
        self.run_id = self.new_run()

    @precondition(lambda self: self.committed >= 1)
    @rule(back=st.integers(1, 2))
    def the_spark_checkpoint_is_set_back(self, back: int) -> None:
        """Where the root reaches so far: all that ran is gone, and batches are planned anew."""
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
        for server in list(self.zombies):
            self.kill(server)
        self.attempts.clear()
        self.batch = Batch(begins, plan)
        self.plan_batches()

    @precondition(lambda self: self.driver.roots.of(QUERY) is not None)
    @rule()
    def a_checkpoint_is_taken(self) -> None:
        with contextlib.suppress(QueryableStateError):
            self.driver.checkpointer.trigger(QUERY, 0.2)

    @precondition(lambda self: len(self.intact()) > 1)
    @rule()
    def the_newest_checkpoint_is_damaged(self) -> None:
        """Another one is intact, and the changelogs after it are there."""
        newest = self.intact()[0]
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
        self.kill(self.pick_live(pick))

    @precondition(lambda self: self.live)
    @rule(pick=PICK)
    def a_server_is_cut_off(self, pick: int) -> None:
        self.pick_live(pick).driver = None

    @precondition(lambda self: any(server.driver is None for server in self.live.values()))
    @rule()
    def servers_are_reached_again(self) -> None:
        for server in list(self.live.values()):
            server.driver = self.driver
            self.renew(server)

    @rule(ms=st.sampled_from([1_000, LEASE_MS // 2, LEASE_MS + MARGIN_MS + 200]))
    def time_passes(self, ms: int) -> None:
        """Those that are reached renew in time."""
        while ms > 0:
            step = min(ms, 1_000)
            self.driver.advance(step)
            ms -= step
            for server in list(self.live.values()):
                self.renew(server)

    # --- what must hold ---

    @invariant()
    def every_committed_read_is_what_the_batches_add_up_to(self) -> None:
        self.learn()
        for server in list(self.servers.by_address.values()):
            self.runner.run(self.check_server(server))

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
                if not set(groups_of_subtask(i, self.parallelism)) <= self.batch.acknowledged
            ]
            if not missing:
                break
            self.time_passes(500)
            for index in missing:
                attempt = self.begin(index, 0)
                if attempt is not None:
                    self.seal(attempt)
        assert self.is_whole(), "the job cannot go on"
        self.commit(set(range(MOST)), settle=True)
        self.learn()
        assert self.committed in self.states
        self.every_committed_read_is_what_the_batches_add_up_to()


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


TestCommitProtocol = CommitProtocol.TestCase
TestCommitProtocol.settings = settings(
    max_examples=25,
    stateful_step_count=30,
    suppress_health_check=list(HealthCheck),
)
