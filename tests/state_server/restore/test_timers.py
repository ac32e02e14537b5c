"""Timers of jobs that fail, restart, rescale and change their backend."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

import pytest
from tests.state_server.restore.stored import BACKENDS, KEYS, config

from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.server.checkpoint.state_root import StateRoot
from queryable_state.server.testing.cluster import InProcessCluster, declare
from queryable_state.v1 import registration_pb2
from queryable_state.wire.keys.store_keys import record_key
from queryable_state.wire.keys.timer_keys import Clock, index_key_of, timer_element
from queryable_state.wire.state_codecs import StateCodecs

if TYPE_CHECKING:
    from pathlib import Path

    from queryable_state.server.testing.cluster import InProcessJob

STATE = declare("timers", kind=registration_pb2.TIMER)
END_OF_TIME = (1 << 63) - 1

Timer = tuple[str, Clock, int]


def sensors(cluster: InProcessCluster, **fields: Any) -> InProcessJob:
    return cluster.job("sensors", STATE, durable=True, **fields)


def changes(
    registered: set[Timer],
    deleted: set[Timer] = frozenset(),  # type: ignore[assignment]
) -> dict[str, dict[str, dict[tuple[Clock, int], bool | None]]]:
    by_key: dict[str, dict[tuple[Clock, int], bool | None]] = {}
    for key, clock, time_ms in deleted:
        by_key.setdefault(key, {})[clock, time_ms] = None
    for key, clock, time_ms in registered:
        by_key.setdefault(key, {})[clock, time_ms] = True
    return {"timers": by_key}


def some(chance: random.Random, count: int) -> set[Timer]:
    return {
        (chance.choice(KEYS), chance.choice(list(Clock)), chance.randrange(1, 500))
        for _ in range(count)
    }


def in_order(timers: set[Timer]) -> list[bytes]:
    codecs = StateCodecs(STATE)
    return sorted(
        index_key_of(
            record_key(codecs.key_groups.wire_key(key), element=timer_element(clock, time_ms))
        )
        for key, clock, time_ms in timers
    )


def next_of(timers: set[Timer]) -> tuple[int | None, int | None]:
    first, second = (
        min((time_ms for _, of, time_ms in timers if of == clock), default=None) for clock in Clock
    )
    return first, second


async def all_due(job: InProcessJob, batch_id: int) -> list[bytes]:
    """Begins the batch after one at the end of time: all pending timers are due."""
    job.clocks = (END_OF_TIME, END_OF_TIME)
    await job.run(batch_id, {})
    await job.begin(batch_id + 1)
    return job.due()


@pytest.mark.parametrize("backend", BACKENDS)
async def test_timers_of_checkpoint_and_changelogs_are_due_on_another_server(
    tmp_path: Path, backend: str
) -> None:
    chance = random.Random(1)
    first, second = some(chance, 80), some(chance, 80)
    fired = set(sorted(first)[::3])
    async with InProcessCluster(tmp_path, config=config(backend=backend)) as cluster:
        job = sensors(cluster)
        await job.run(0, changes(first))
        await job.checkpoint()
        await job.run(1, changes(second - fired, fired))
        pending = (first | second) - fired
        assert await job.next_timers(1) == next_of(pending)
        await cluster.respawn_server(cluster.servers[0])
        restarted = job.restart()
        assert await all_due(restarted, 2) == in_order(pending)


@pytest.mark.parametrize("former", BACKENDS)
async def test_timers_follow_a_job_to_another_backend_and_parallelism(
    tmp_path: Path, former: str
) -> None:
    latter = BACKENDS[1 - BACKENDS.index(former)]
    timers = some(random.Random(2), 200)
    async with InProcessCluster(tmp_path, config=config(backend=former)) as cluster:
        job = sensors(cluster)
        await job.run(0, changes(timers))
        await job.checkpoint()
        cluster.coordinator.coordinator.configure("", config(backend=latter))
        await cluster.respawn_server(cluster.servers[0])
        restarted = job.restart(parallelism=3)
        await restarted.run(1, {})
        assert await restarted.next_timers(1) == next_of(timers)
        assert await all_due(restarted, 2) == in_order(timers)


@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_job_that_starts_from_a_savepoint_has_its_timers(
    tmp_path: Path, backend: str
) -> None:
    timers = some(random.Random(3), 200)
    async with InProcessCluster(tmp_path / "a", config=config(backend=backend)) as cluster:
        job = sensors(cluster)
        await job.run(0, changes(timers))
        uri, version = await asyncio.to_thread(
            cluster.coordinator.coordinator.trigger_savepoint,
            "sensors",
            str(tmp_path / "savepoints"),
            timeout_s=20.0,
        )
    async with InProcessCluster(tmp_path / "b", config=config()) as cluster:
        started = sensors(cluster, parallelism=3)
        StateRoot(str(started.root), storage_of(str(started.root))).start_from(
            uri, version, job_id=started.query_id, job_name="sensors"
        )
        cluster.coordinator.engine.commit(started.query_id, version)
        await started.run(1, {})
        assert await started.next_timers(1) == next_of(timers)
        assert await all_due(started, 2) == in_order(timers)


async def test_timers_sealed_before_a_crash_are_known_once_their_batch_is_committed(
    tmp_path: Path,
) -> None:
    timers = some(random.Random(4), 50)
    async with InProcessCluster(tmp_path, config=config()) as cluster:
        job = sensors(cluster)
        await job.run(0, {})
        await job.seal(1, changes(timers))
        await cluster.respawn_server(cluster.servers[0])
        restarted = job.restart()
        await restarted.begin(1)
        assert restarted.due() == []
        await restarted.commit(1)
        assert await restarted.next_timers(1) == next_of(timers)


@pytest.mark.parametrize(("backend", "seed"), [("heap", 0), ("rocksdb", 1)])
async def test_whatever_dies_between_two_batches_no_timer_is_lost_and_none_is_left(
    tmp_path: Path, backend: str, seed: int
) -> None:
    """Kills, checkpoints, re-runs and other parallelisms in a random order, against a set."""
    chance = random.Random(seed)
    pending: set[Timer] = set()
    async with InProcessCluster(tmp_path, config=config(backend=backend), servers=2) as cluster:
        job = sensors(cluster)
        watermarks = [0]
        for number in range(12):
            event = chance.choice(["checkpoint", "kill", "respawn", "rescale", "sealed", "none"])
            job.clocks = (30 * number, 25 * number)
            if event == "checkpoint" and number:
                await job.checkpoint()
            elif event == "kill":
                await cluster.add_server()
                await cluster.kill_server(chance.choice(cluster.servers[:-1]))
            elif event == "respawn":
                await cluster.respawn_server(chance.choice(cluster.servers))
            elif event == "rescale":
                job = job.restart(parallelism=chance.choice([1, 2, 3]))
            elif event == "sealed":
                await job.seal(number, changes(some(chance, 40), pending))
                await cluster.respawn_server(chance.choice(cluster.servers))
                job = job.restart()
            job.clocks = (30 * number, 25 * number)
            job.begun.clear()
            await job.begin(number)
            until = {Clock.PROCESSING_TIME: 30 * number, Clock.EVENT_TIME: watermarks[-1]}
            due = {timer for timer in pending if timer[2] <= until[timer[1]]}
            if not watermarks[-1]:
                due = {timer for timer in due if timer[1] == Clock.PROCESSING_TIME}
            assert job.due() == in_order(due), (number, event)
            registered = some(chance, 40)
            await job.run(number, changes(registered, due))
            pending = pending - due | registered
            assert await job.next_timers(number) == next_of(pending), (number, event)
            watermarks.append(25 * number)
