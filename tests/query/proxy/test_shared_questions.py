"""How often a proxy asks the coordinator, whatever its clients ask."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from queryable_state.server.coordinator_client import CoordinatorClient
from queryable_state.server.job_names import job_id_of
from queryable_state.server.query.proxy import followed_coordinator, location_table
from queryable_state.server.query.proxy.coordinator_endpoints import CoordinatorEndpoints
from queryable_state.server.query.proxy.followed_coordinator import FollowedCoordinator
from queryable_state.server.query.proxy.location_table import LocationTable, SharedCall
from queryable_state.server.testing.cluster import InProcessCluster, declare
from queryable_state.v1 import query_pb2, status_pb2
from queryable_state.wire.errors import QueryableStateError, UnknownJobError, UnknownStateError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable
    from pathlib import Path


class CountedCoordinator:
    """The coordinator of a cluster, with the calls to it."""

    def __init__(self, client: CoordinatorClient) -> None:
        self._client = client
        self.calls: list[str] = []

    @property
    def address(self) -> str:
        return self._client.address

    async def locate_state(
        self, request: query_pb2.LocateStateRequest
    ) -> query_pb2.LocateStateResponse:
        self.calls.append("locate_state")
        return await self._client.locate_state(request)

    async def list_jobs(self, request: query_pb2.ListJobsRequest) -> query_pb2.ListJobsResponse:
        self.calls.append("list_jobs")
        return await self._client.list_jobs(request)

    async def list_states(
        self, request: query_pb2.ListStatesRequest
    ) -> query_pb2.ListStatesResponse:
        self.calls.append("list_states")
        return await self._client.list_states(request)

    async def describe_job(
        self, request: status_pb2.DescribeJobRequest
    ) -> status_pb2.JobDescription:
        self.calls.append("describe_job")
        return await self._client.describe_job(request)

    async def list_servers(
        self, request: status_pb2.ListServersRequest
    ) -> status_pb2.ListServersResponse:
        self.calls.append("list_servers")
        return await self._client.list_servers(request)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[InProcessCluster]:
    async with InProcessCluster(tmp_path) as running:
        job = running.job("sensors", declare("last", "string", "double"))
        await job.run(0, {"last": {"a": 1.0}})
        yield running


@pytest.fixture
async def counted(cluster: InProcessCluster) -> AsyncIterator[CountedCoordinator]:
    async with CoordinatorClient(cluster.coordinator.address, cluster.coordinator.secret) as client:
        yield CountedCoordinator(client)


@pytest.fixture
async def locations(counted: CountedCoordinator) -> AsyncIterator[LocationTable]:
    table = LocationTable(counted)
    yield table
    await table.aclose()


def named(job: str = "sensors", *, newer_than: int = 0) -> query_pb2.LocateStateRequest:
    return query_pb2.LocateStateRequest(job=job, state_name="last", newer_than=newer_than)


async def outcomes(asked: list[Awaitable[Any]]) -> list[Any]:
    return await asyncio.gather(*asked, return_exceptions=True)


async def test_invented_ids_are_looked_up_in_few_lists(
    counted: CountedCoordinator, locations: LocationTable
) -> None:
    for ask in (locations.registered, locations.locate_id):
        found = await outcomes([ask(1000 + number) for number in range(500)])
        assert all(isinstance(each, UnknownStateError) for each in found)
    assert len(counted.calls) <= 4


async def test_lists_of_many_clients_are_few_calls(
    counted: CountedCoordinator, locations: LocationTable
) -> None:
    jobs = [locations.list_jobs(query_pb2.ListJobsRequest()) for _ in range(200)]
    assert {each.jobs[0].name for each in await outcomes(list(jobs))} == {"sensors"}
    of_jobs = [
        locations.list_states(query_pb2.ListStatesRequest(job=f"job {number}"))
        for number in range(200)
    ]
    assert all(isinstance(each, UnknownJobError) for each in await outcomes(list(of_jobs)))
    assert len(counted.calls) <= 4


async def test_a_newer_placement_than_any_is_looked_for_at_a_bounded_rate(
    counted: CountedCoordinator, locations: LocationTable
) -> None:
    await locations.locate(named())
    found = await outcomes([locations.locate(named(newer_than=10**9 + n)) for n in range(500)])
    assert not any(isinstance(each, BaseException) for each in found)
    assert len(counted.calls) <= 3
    begun_s = time.monotonic()
    for number in range(15):
        await locations.locate(named(newer_than=10**9 + number))
    assert len(counted.calls) <= 3 + 10 + (time.monotonic() - begun_s) * 10


async def test_a_list_has_what_was_there_when_it_was_asked_for() -> None:
    there: list[int] = []
    answered = asyncio.Event()

    async def look() -> tuple[int, ...]:
        seen = tuple(there)
        await answered.wait()
        return seen

    shared = SharedCall(look)
    first = asyncio.ensure_future(shared.answer())
    while not shared._begun:  # noqa: ASYNC110
        await asyncio.sleep(0)
    there.append(1)
    second = asyncio.ensure_future(shared.answer())
    await asyncio.sleep(0)
    answered.set()
    assert await first == ()
    assert await second == (1,)


async def test_a_failure_is_that_of_its_callers_alone() -> None:
    failures = [QueryableStateError("away")]

    async def look() -> str:
        if failures:
            raise failures.pop()
        return "there"

    shared = SharedCall(look)
    for failure in await outcomes([shared.answer(), shared.answer()]):
        assert isinstance(failure, QueryableStateError)
    assert await shared.answer() == "there"


async def test_a_job_is_listed_by_name_and_both_forms_of_its_id(
    cluster: InProcessCluster, locations: LocationTable
) -> None:
    job_id = (await locations.locate(named())).registration.job_id.hex()
    dashed = f"{job_id[:8]}-{job_id[8:12]}-{job_id[12:16]}-{job_id[16:20]}-{job_id[20:]}"
    for text in ("", "sensors", job_id, dashed):
        listed = await locations.list_states(query_pb2.ListStatesRequest(job=text))
        assert [state.queryable_name for state in listed.states] == ["last"]
    new = cluster.job("flights", declare("delay", "string", "double"))
    await new.run(0, {"delay": {"a": 1.0}})
    listed = await locations.list_states(query_pb2.ListStatesRequest(job="flights"))
    assert [state.queryable_name for state in listed.states] == ["delay"]


SPELLINGS = ("{{{}}}", "urn:uuid:{}", " {}", "{}\n", "-{}", "{}-")


async def test_an_id_has_few_spellings(locations: LocationTable) -> None:
    """Each is a key of caches."""
    job_id = (await locations.locate(named())).registration.job_id
    digits = job_id.hex()
    assert job_id_of(digits) == job_id_of(digits.upper()) == job_id
    mixed = "".join(d.upper() if n % 2 else d for n, d in enumerate("abcdef" * 5 + "ab"))
    assert job_id_of(mixed) is None
    for spelling in SPELLINGS:
        assert job_id_of(spelling.format(digits)) is None
        with pytest.raises(UnknownJobError):
            await locations.locate(named(spelling.format(digits)))


async def test_names_that_clients_write_are_bounded(
    cluster: InProcessCluster, locations: LocationTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(location_table, "_MOST_NAMES", 2)
    monkeypatch.setattr(followed_coordinator, "_MOST_LOCATED", 2)
    job_id = (await locations.locate(named())).registration.job_id.hex()
    endpoints = CoordinatorEndpoints([cluster.coordinator.address], cluster.coordinator.secret)
    followed = FollowedCoordinator(endpoints)
    await followed.connect()
    for job in ("", "sensors", job_id, job_id.upper()):
        await locations.locate(named(job))
        await followed.locate_state(named(job))
    await followed.aclose()
    assert len(locations._names) == 2
    assert len(followed._located) == 2
