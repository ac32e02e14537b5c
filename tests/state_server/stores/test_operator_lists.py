"""Operator state over changes of parallelism: by rule, and through a server that is restored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryable_state.internal.v1 import backend_pb2
from queryable_state.server.coordinator import JobConfig
from queryable_state.server.state_server.restore.operator_lists import OperatorLists, parallelism_of
from queryable_state.v1 import registration_pb2
from queryable_state.wire.changes import BlockSums, ChangeBlockBuilder
from queryable_state.wire.keys.key_groups import key_group_range

if TYPE_CHECKING:
    from tests.state_server.cluster import Cluster, Job

    from queryable_state.server.state_server.server import StateServer
    from queryable_state.server.storage.store import StateStore

KINDS = {
    1: registration_pb2.OPERATOR_LIST,
    2: registration_pb2.OPERATOR_UNION,
    3: registration_pb2.BROADCAST,
}
STATES = {
    state_id: registration_pb2.StateRegistration(state_id=state_id, kind=kind)
    for state_id, kind in KINDS.items()
}


def lists(parallelism: int, elements: dict[int, list[bytes]]) -> OperatorLists:
    made = OperatorLists(STATES)
    made.run_at(parallelism)
    for state_id in STATES:
        for index, each in elements.items():
            made.set(state_id, index, each)
    return made


def test_each_kind_is_shared_out_by_its_rule() -> None:
    held = lists(2, {0: [b"a", b"b"], 1: [b"c"]})
    held.run_at(3)
    assert [held.of(index)[1] for index in range(3)] == [(b"a",), (b"b",), (b"c",)]
    assert {held.of(index)[2] for index in range(3)} == {(b"a", b"b", b"c")}
    assert {held.of(index)[3] for index in range(3)} == {(b"a", b"b")}


def test_a_keyed_state_is_none_of_it() -> None:
    held = OperatorLists({1: registration_pb2.StateRegistration(kind=registration_pb2.VALUE)})
    held.run_at(1)
    held.set(1, 0, [b"x"])
    assert held.of(0) == {}
    assert not held


@given(
    st.dictionaries(st.integers(0, 4), st.lists(st.binary(max_size=3), max_size=4)),
    st.lists(st.integers(1, 6), min_size=1, max_size=4),
)
def test_no_element_of_a_list_is_lost_or_doubled(
    elements: dict[int, list[bytes]], parallelisms: list[int]
) -> None:
    held = lists(5, elements)
    for parallelism in parallelisms:
        held.run_at(parallelism)
    shared = [e for index in range(parallelisms[-1]) for e in held.of(index).get(1, ())]
    assert sorted(shared) == sorted(e for each in elements.values() for e in each)


@given(st.integers(1, 200), st.data())
def test_ranges_tell_the_parallelism_they_are_of(max_parallelism: int, data: st.DataObject) -> None:
    parallelism = data.draw(st.integers(1, max_parallelism))
    ranges = [key_group_range(i, parallelism, max_parallelism) for i in range(parallelism)]
    assert parallelism_of(ranges, max_parallelism, parallelism) == parallelism
    found = parallelism_of(ranges, max_parallelism, 0)
    assert len(ranges) <= found <= max_parallelism


async def begun(
    job: Job, server: StateServer, batch_id: int, index: int, p: int, *, attempt: int | None = None
) -> Any:
    """An attempt of an operator that also has an operator state of each kind."""
    task = job.attempt(server, batch_id, index, attempt=attempt)
    task.parallelism = p
    task.operator_states = {"list": 7, "union": 8, "broadcast": 9}
    await task.locate()
    return await task.begin()


async def seal(task: Any, elements: list[bytes]) -> None:
    sums = BlockSums()
    blocks: list[bytes] = []
    for state in task.begun.states[1:]:
        builder = ChangeBlockBuilder(state.state_id, sums)
        builder.operator_state(elements)
        blocks += builder.finish()
    await task.send(
        [
            task.open_frame(),
            *(backend_pb2.PrepareRequest(block=block) for block in blocks),
            backend_pb2.PrepareRequest(seal=sums.seal(task.begun.token)),
        ]
    )


def store_of(server: StateServer, index: int) -> StateStore:
    [store] = [each.store for each in server.table.subtasks() if each.id.subtask == index]
    return store


async def held_by(
    job: Job, server: StateServer, batch_id: int, p: int, *, staged: bool = False
) -> list[list[list[bytes]]]:
    """By subtask: the elements of list, union and broadcast."""
    found = []
    for index in range(p):
        task = await begun(job, server, batch_id, index, p)
        store = store_of(server, index)
        ids = [state.state_id for state in task.begun.states[1:]]
        found.append([store.operator_state(state_id, staged) for state_id in ids])
    return found


@pytest.mark.parametrize("with_checkpoint", [False, True])
async def test_a_restored_operator_has_its_operator_state_by_the_rules(
    cluster: Cluster, with_checkpoint: bool
) -> None:
    config = JobConfig(checkpoint_interval_ms=0)
    server, job = await cluster.server(), cluster.job(config=config)
    for index, elements in enumerate(([b"a", b"b"], [b"c"])):
        await seal(await begun(job, server, 0, index, 2), elements)
    await job.commit(server, 0)
    if with_checkpoint:
        await job.checkpoint()
    # Subtask 1 alone changes its lists; then all is shared out over three, and over one.
    await seal(await begun(job, server, 1, 0, 2), [b"a", b"b"])
    await seal(await begun(job, server, 1, 1, 2), [b"c", b"d"])
    await job.commit(server, 1)
    restarted = job.restart()
    everything = [b"a", b"b", b"c", b"d"]
    assert await held_by(restarted, server, 2, 3) == [
        [[b"a", b"d"], everything, [b"a", b"b"]],
        [[b"b"], everything, [b"a", b"b"]],
        [[b"c"], everything, [b"a", b"b"]],
    ]
    again = restarted.restart()
    assert await held_by(again, server, 2, 1) == [[everything, everything, [b"a", b"b"]]]


async def test_what_was_sealed_at_another_parallelism_is_staged_by_the_rules(
    cluster: Cluster,
) -> None:
    """Also what subtasks had sealed that share no key group with the one that takes it over."""
    server, job = await cluster.server(), cluster.job(config=JobConfig(checkpoint_interval_ms=0))
    for batch_id, elements in enumerate((([b"a"], [b"c"]), ([b"a", b"b"], [b"c", b"d"]))):
        for index in range(2):
            await seal(await begun(job, server, batch_id, index, 2), elements[index])
        if batch_id == 0:
            await job.commit(server, 0)
    restarted = job.restart()
    everything = [b"a", b"b", b"c", b"d"]
    assert await held_by(restarted, server, 1, 3, staged=True) == [
        [[b"a", b"d"], everything, [b"a", b"b"]],
        [[b"b"], everything, [b"a", b"b"]],
        [[b"c"], everything, [b"a", b"b"]],
    ]
    await job.commit(server, 1)
    assert await held_by(restarted, server, 2, 3) == [
        [[b"a", b"d"], everything, [b"a", b"b"]],
        [[b"b"], everything, [b"a", b"b"]],
        [[b"c"], everything, [b"a", b"b"]],
    ]


async def test_a_subtask_may_begin_after_a_higher_attempt_of_another_one_has_sealed(
    cluster: Cluster,
) -> None:
    server, job = await cluster.server(), cluster.job(config=JobConfig(checkpoint_interval_ms=0))
    for batch_id, element in enumerate((b"a", b"b")):
        await seal(await begun(job, server, batch_id, 1, 2, attempt=29), [element])
        late = await begun(job, server, batch_id, 0, 2, attempt=23)
        assert store_of(server, 0).staged_token is None
        await seal(late, [element])
        await job.commit(server, batch_id)
        job = job.restart()
    assert await held_by(job, server, 2, 2) == [[[b"b"]] * 3] * 2


async def test_a_subtask_that_is_opened_again_is_fenced_by_its_own_seals_alone(
    cluster: Cluster,
) -> None:
    server, job = await cluster.server(), cluster.job(config=JobConfig(checkpoint_interval_ms=0))
    await seal(await begun(job, server, 0, 0, 2, attempt=23), [b"a"])
    last = await begun(job, server, 0, 1, 2, attempt=29)
    await seal(last, [b"b"])
    await last.shut_down()
    server = await cluster.server("e2")
    again = await begun(job, server, 0, 0, 2, attempt=26)
    assert store_of(server, 0).staged_token == (again.begun.token.run_epoch, 23)
    await seal(again, [b"c"])
    await job.commit(server, 0)
    assert await held_by(job, server, 1, 2) == [[[b"c"]] * 3, [[b"b"]] * 3]


async def test_what_this_run_sealed_elsewhere_is_not_mixed_with_what_the_run_before_sealed(
    cluster: Cluster,
) -> None:
    server, job = await cluster.server(), cluster.job(config=JobConfig(checkpoint_interval_ms=0))
    for index, elements in enumerate(([b"a", b"b"], [b"c", b"d"])):
        await seal(await begun(job, server, 0, index, 2), elements)
    restarted = job.restart()
    await seal(await begun(restarted, server, 0, 2, 3, attempt=29), [b"e"])
    late = await begun(restarted, server, 0, 0, 3, attempt=23)
    ids = [state.state_id for state in late.begun.states[1:]]
    assert [store_of(server, 0).operator_state(state_id, True) for state_id in ids] == [
        [b"a", b"d"],
        [b"a", b"b", b"c", b"d"],
        [b"a", b"b"],
    ]
    await seal(late, [b"f"])
    await seal(await begun(restarted, server, 0, 1, 3, attempt=26), [b"g"])
    await restarted.commit(server, 0)
    assert await held_by(restarted, server, 1, 3) == [[[b"f"]] * 3, [[b"g"]] * 3, [[b"e"]] * 3]
