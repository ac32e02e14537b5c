"""Which batch a query is answered from, and that it waits for it where it is not there."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.client.asking import client_of, until_direct
from tests.waiting import eventually

from queryable_state.client import (
    Consistency,
    InvalidRequestError,
    Reason,
    RetryLaterError,
)
from queryable_state.server.testing.cluster import declare

if TYPE_CHECKING:
    from queryable_state.client import QueryableStateClient
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob


@pytest.fixture(params=["0", ""], ids=["frames", "unary"])
def frame_ports(request: pytest.FixtureRequest) -> str:
    """Both ways of look-ups."""
    ports: str = request.param
    return ports


@pytest.mark.parametrize("direct", [True, False], ids=["direct", "proxy"])
async def test_who_wrote_a_batch_reads_it(
    cluster: InProcessCluster, job: InProcessJob, direct: bool
) -> None:
    """`at_least` answers with the commit, not before it and not by asking again."""
    async with client_of(cluster.servers[0].addresses.proxy, direct=direct) as client:
        if direct:
            await until_direct(client, cluster)
        pending = client.get_kv_state(
            "sensors", "last", "sensor_1", consistency=Consistency.at_least(2)
        )
        await eventually(lambda: _parked(cluster, job) > 0)
        assert not pending.done()
        await job.run(2, {"last": {"sensor_1": -1.0}})
        state = await pending
        assert (state.value(), state.info.version) == (-1.0, 2)


async def test_a_batch_that_is_there_is_answered_at_once(client: QueryableStateClient) -> None:
    for consistency in (Consistency.at_least(1), Consistency.within(3600), Consistency.COMMITTED):
        state = await client.get_kv_state("sensors", "last", "sensor_1", consistency=consistency)
        assert (state.value(), state.info.version) == (1.0, 1)


async def test_the_first_batch_can_be_waited_for(cluster: InProcessCluster) -> None:
    """0 is a batch here, though a message says so of any batch."""
    early = cluster.job("early", declare("first", "string", "bigint"))
    await early.seal(0, {"first": {"k": 1}})
    async with client_of(cluster.servers[0].addresses.proxy) as client:
        before = await client.multi_get("early", "first", ["k"])
        assert before.missing == ["k"]
        pending = client.get_kv_state("early", "first", "k", consistency=Consistency.at_least(0))
        await eventually(lambda: _parked(cluster, early) > 0)
        await early.commit(0)
        assert (await pending).value() == 1


async def test_a_batch_that_does_not_come_says_so_before_time_is_over(
    client: QueryableStateClient, cluster: InProcessCluster
) -> None:
    await until_direct(client, cluster)
    loop = asyncio.get_running_loop()
    started = loop.time()
    with pytest.raises(RetryLaterError, match="batch 9") as raised:
        await client.get_kv_state(
            "sensors", "last", "sensor_1", consistency=Consistency.at_least(9), timeout_s=0.5
        )
    assert raised.value.reason == Reason.BEHIND
    assert loop.time() - started < 0.6


async def test_a_commit_that_is_too_old_is_waited_out(
    client: QueryableStateClient, cluster: InProcessCluster, job: InProcessJob
) -> None:
    await until_direct(client, cluster)
    info = (await client.get_kv_state("sensors", "last", "sensor_1")).info
    await eventually(lambda: time.time() * 1000 > info.commit_time_ms + 1010)
    fresh = Consistency.within(1)
    pending = client.get_kv_state("sensors", "last", "sensor_1", consistency=fresh)
    await eventually(lambda: _parked(cluster, job) > 0)
    await job.run(2, {"last": {"sensor_1": 2.0}})
    assert ((await pending).value(), (await pending).info.version) == (2.0, 2)


@pytest.mark.parametrize("direct", [True, False], ids=["direct", "proxy"])
async def test_queries_that_wait_hold_up_nobody(
    cluster: InProcessCluster, job: InProcessJob, direct: bool
) -> None:
    """More than fit in the window of a stream, and in what a server takes: others are answered."""
    async with client_of(cluster.servers[0].addresses.proxy, direct=direct) as client:
        if direct:
            await until_direct(client, cluster)
        await _ask_among_waiting(client, cluster, job)


async def _ask_among_waiting(
    client: QueryableStateClient, cluster: InProcessCluster, job: InProcessJob
) -> None:
    waiting = [
        client.get_kv_state(
            "sensors",
            "last",
            "sensor_1",
            consistency=Consistency.at_least(2),
            # Each is a message of its own.
            timeout_s=20 + number,
        )
        for number in range(100)
    ]
    await eventually(lambda: _parked(cluster, job) >= 40)
    for number in range(10):
        state = await client.get_kv_state("sensors", "last", f"sensor_{number}", timeout_s=5)
        assert state.value() == number
    assert not any(pending.done() for pending in waiting)
    await job.run(2, {"last": {"sensor_1": 2.0}})
    assert {(await pending).value() for pending in waiting} == {2.0}


@pytest.mark.parametrize(
    "make",
    [
        lambda: Consistency.at_least(-1),
        lambda: Consistency.at_least(1.5),  # type: ignore[arg-type]
        lambda: Consistency.at_least(True),
        lambda: Consistency.within(0),
        lambda: Consistency.within(float("nan")),
        lambda: Consistency.within("1"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_consistency_cannot_be_made(make: Any) -> None:
    with pytest.raises(InvalidRequestError):
        make()


async def test_what_is_no_consistency_is_refused(client: QueryableStateClient) -> None:
    for wrong in (1, "COMMITTED", None):
        with pytest.raises(InvalidRequestError, match="Consistency"):
            await client.get_kv_state("sensors", "last", "sensor_1", consistency=wrong)  # type: ignore[call-overload]


async def test_an_argument_there_is_not_is_a_type_error(client: QueryableStateClient) -> None:
    with pytest.raises(TypeError, match=r"'timeout'.*timeout_s"):
        await client.get_kv_state("sensors", "last", "sensor_1", timeout=1)  # type: ignore[call-overload]


def test_consistencies_are_values() -> None:
    assert Consistency.at_least(3) == Consistency.at_least(3)
    assert len({Consistency.within(1), Consistency.within(1.0), Consistency.COMMITTED}) == 2
    named = (Consistency.COMMITTED, Consistency.UNCOMMITTED, Consistency.at_least(0))
    assert [repr(each) for each in (*named, Consistency.within(1.5))] == [
        "Consistency.COMMITTED",
        "Consistency.UNCOMMITTED",
        "Consistency.at_least(0)",
        "Consistency.within(1.5)",
    ]


def _parked(cluster: InProcessCluster, job: InProcessJob) -> int:
    """Queries that wait on the servers for a commit of a job."""
    stores = [server.table.job(job.query_id) for server in cluster.servers]
    return sum(len(known.waiting) for known in stores if known is not None)
