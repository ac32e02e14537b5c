"""Answers that come later, through sessions and over sockets."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pytest
from tests.query.streams import RawStream, state_id_of, wire_keys
from tests.state_server.owner import KEYS, MAX_PARALLELISM, STATE_ID, VALUES, key_of
from tests.waiting import eventually

from queryable_state.server.query.local_router import LocalRouter
from queryable_state.server.query.scan_query import ScanQuery
from queryable_state.server.testing.cluster import InProcessCluster, declare
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import Reason
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.located_state import LocatedState
from queryable_state.wire.schema.types import Types

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.state_server.owner import Owner

    from queryable_state.server.testing.cluster import InProcessJob


KEY = key_of(0)


class NoLocations:
    """For routers that are not asked where states are."""

    locate = list_jobs = list_states = None


def router_of(owner: Owner) -> LocalRouter:
    locations: Any = NoLocations()
    return LocalRouter(owner.engine, locations)


def located(owner: Owner) -> LocatedState:
    return LocatedState.of(
        registration_pb2.StateLocation(
            registration=owner.registration,
            placement_version=3,
            owners=[
                registration_pb2.RangeOwner(
                    last_key_group=MAX_PARALLELISM - 1, server_id="server", address="here:1"
                )
            ],
        )
    )


def answer_of(frame: bytes) -> query_pb2.Answer:
    return query_pb2.ServerFrame.FromString(frame).answer


async def test_a_session_delivers_what_comes_later(owner: Owner) -> None:
    owner.own_all()
    delivered: asyncio.Queue[tuple[int, bytes, bool]] = asyncio.Queue()
    session = router_of(owner).session(lambda *frame: delivered.put_nowait(frame))
    at_once = session.ask(owner.query(KEY), b"")
    assert at_once is not None
    assert list(answer_of(at_once).missing) == [0]
    assert session.ask(owner.query(KEY, min_version=1), b"") is None
    await asyncio.sleep(0)
    owner.seal(1, {KEY: 6})
    owner.commit(1)
    async with asyncio.timeout(20):
        _, frame, last = await delivered.get()
    assert last
    assert [VALUES.decode(value) for value in answer_of(frame).values] == [6]
    await session.aclose()


async def test_a_session_that_is_closed_forgets_what_waits(owner: Owner) -> None:
    owner.own_all()
    delivered: list[object] = []
    session = router_of(owner).session(lambda *frame: delivered.append(frame))
    assert session.ask(owner.query(KEY, min_version=1), b"") is None
    await eventually(lambda: len(owner.waiting) == 1)
    await session.aclose()
    await session.aclose()
    assert not owner.waiting
    owner.commit(1)
    await asyncio.sleep(0)
    assert not delivered


async def test_a_call_outside_any_stream_waits_too(owner: Owner) -> None:
    owner.own_all()
    asked = asyncio.create_task(router_of(owner).answers(owner.query(KEY, at_version=0)))
    await eventually(lambda: len(owner.waiting) == 1)
    owner.seal(0, {KEY: 1})
    owner.commit(0)
    [answer] = await asked
    assert (answer.last, len(answer.values)) == (True, 1)


async def test_a_measure_says_whether_all_of_the_state_is_here(owner: Owner) -> None:
    for subtask in range(3):
        owner.own(subtask)
    owner.seal(0, {f"k{i}": i for i in range(50)})
    owner.commit(0)
    router = router_of(owner)
    assert not (await router.measure(located(owner), 1_000)).complete
    broken = owner.own(3)
    measure = await router.measure(located(owner), 1_000)
    assert measure.complete
    assert len(measure.parts) == 4
    assert measure.records == sum(part.records for part in measure.parts)
    broken.store.close()
    assert not (await router.measure(located(owner), 1_000)).complete


async def test_scans_are_the_engines(owner: Owner) -> None:
    owner.own_all()
    owner.seal(0, {KEY: 1})
    owner.commit(0)
    router = router_of(owner)
    query = ScanQuery(state_id=STATE_ID, first_key_group=0, last_key_group=MAX_PARALLELISM - 1)
    async with aclosing(router.scan(query, located(owner))) as scan:
        [message] = [message async for message in scan]
    assert [key.key for key in message.keys] == [KEYS.wire_key(KEY)]


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[InProcessCluster]:
    async with InProcessCluster(tmp_path, drain_timeout_s=30.0) as running:
        yield running


@pytest.fixture
async def job(cluster: InProcessCluster) -> InProcessJob:
    counts = declare("counts", "string", "bigint", kind=registration_pb2.MAP, map_key_type="string")
    started = cluster.job("sensors", declare("last", "string", "double"), counts)
    await started.run(0, {"last": {"sensor_1": 1.0}, "counts": {"sensor_1": {"x": 1, "y": 2}}})
    return started


@pytest.fixture
async def stream(cluster: InProcessCluster, job: InProcessJob) -> AsyncIterator[RawStream]:
    """To the owner itself."""
    address = cluster.servers[0].addresses.query
    async with RawStream(address) as opened:
        yield opened


@pytest.fixture(params=["query", "proxy"])
async def any_stream(
    request: pytest.FixtureRequest, cluster: InProcessCluster, job: InProcessJob
) -> AsyncIterator[RawStream]:
    """To the owner, or to the proxy in its process."""
    address = getattr(cluster.servers[0].addresses, request.param)
    async with RawStream(address) as opened:
        yield opened


async def test_a_stream_is_answered_with_the_commit_it_waits_for(
    cluster: InProcessCluster, job: InProcessJob, any_stream: RawStream
) -> None:
    stream, state_id = any_stream, await state_id_of(cluster)
    stream.send(id=1, state_id=state_id, keys=wire_keys("sensor_1"), min_version=1)
    [other] = await stream.ask(id=2, state_id=state_id, keys=wire_keys("sensor_1"))
    assert (other.id, other.info.version) == (2, 0)
    await job.run(1, {"last": {"sensor_1": 2.0}})
    waited = await stream.answer()
    assert (waited.id, waited.last, waited.info.version) == (1, True, 1)


async def test_a_stream_takes_every_kind_of_read(
    cluster: InProcessCluster, any_stream: RawStream
) -> None:
    stream, state_id = any_stream, await state_id_of(cluster, "counts")
    asked: dict[str, Any] = {"state_id": state_id, "keys": wire_keys("sensor_1", "absent")}
    element = KeyCodec(Types.STRING()).encode("y")
    [entry] = await stream.ask(read=query_pb2.ENTRY, elements=[element], **asked)
    assert [VALUES.decode(value) for value in entry.values] == [2]
    [exists] = await stream.ask(read=query_pb2.EXISTS, **asked)
    assert (list(exists.values), list(exists.missing)) == ([b""], [1])
    [size] = await stream.ask(read=query_pb2.SIZE, **asked)
    assert query_pb2.Size.FromString(size.values[0]).elements == 2


async def test_a_server_that_stops_answers_what_waits_instead_of_waiting_with_it(
    cluster: InProcessCluster, job: InProcessJob, stream: RawStream
) -> None:
    state_id = await state_id_of(cluster)
    stream.send(state_id=state_id, keys=wire_keys("sensor_1"), min_version=9, deadline_ms=60_000)
    server = cluster.servers[0]
    await eventually(lambda: any(len(job.waiting) for job in server.table.jobs()))
    stopping = asyncio.create_task(cluster.stop_server(server))
    answer = await stream.answer()
    assert answer.error.reason == Reason.LEASE_EXPIRED
    await stopping
