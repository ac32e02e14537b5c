"""How a proxy brings queries to owners: relayed, split, moved, given up."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

import pytest
from tests.query.streams import (
    RawStream,
    keys_of_server,
    mute_frames,
    state_id_of,
    values_by_position,
    wire_keys,
)

from queryable_state.internal.v1 import backend_pb2, coordinator_pb2
from queryable_state.server.coordinator_client import CoordinatorClient
from queryable_state.server.query.proxy.location_table import LocationTable
from queryable_state.server.testing.cluster import declare
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import InvalidRequestError, Reason
from queryable_state.wire.located_state import LocatedState

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from queryable_state.server.query.proxy.proxy_server import ProxyServer
    from queryable_state.server.state_server.server import StateServer
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob

ALL = [f"sensor_{number}" for number in range(100)]


def _ids_asked(server: StateServer) -> list[int]:
    """Notes the ids of the queries that reach a server's engine."""
    ids: list[int] = []
    answer = server.engine.answer

    def noted(query: query_pb2.Query) -> query_pb2.Answer | None:
        ids.append(query.id)
        return answer(query)

    server.engine.answer = noted  # type: ignore[method-assign]
    return ids


async def test_a_query_of_one_owner_is_relayed_as_it_came(
    proxy: ProxyServer, cluster: InProcessCluster, job: InProcessJob
) -> None:
    """Under its own id, and answered in one part with the owner's own words."""
    ids = _ids_asked(cluster.servers[1])
    keys = keys_of_server(cluster, 1)
    state_id = await state_id_of(cluster)
    async with RawStream(proxy.address) as stream:
        parts = await stream.ask(id=77, state_id=state_id, keys=wire_keys(*keys, "nobody"))
        parts = await stream.ask(id=78, state_id=state_id, keys=wire_keys(*keys))
    assert 78 in ids
    [part] = parts
    assert list(part.indexes) == []
    assert part.info.role == query_pb2.OWNER
    assert part.info.server_id == cluster.servers[1].server_id


async def test_a_query_of_two_owners_is_split_and_every_key_answered_once(
    proxy: ProxyServer, cluster: InProcessCluster, job: InProcessJob
) -> None:
    state_id = await state_id_of(cluster)
    keys = ["nobody", *ALL, "none", "no one"]
    async with RawStream(proxy.address) as stream:
        for query_id in (1, 2):
            parts = await stream.ask(id=query_id, state_id=state_id, keys=wire_keys(*keys))
            values = values_by_position(parts, len(keys))
            assert values == {number + 1: float(number) for number in range(100)}
            assert {part.id for part in parts} == {query_id}
            assert {part.info.server_id for part in parts} == {
                server.server_id for server in cluster.servers
            }


async def test_keys_of_the_own_process_take_no_hop(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    """The proxy of a server answers what the server owns from its engine."""
    first, second = cluster.servers
    state_id = await state_id_of(cluster)
    asked_there = _ids_asked(second)
    own = keys_of_server(cluster, 0)
    async with (
        RawStream(first.addresses.proxy) as stream,
    ):
        for query_id in (1, 2):
            [part] = await stream.ask(id=query_id, state_id=state_id, keys=wire_keys(*own))
            assert len(part.values) == len(own)
            assert part.info.server_id == first.server_id
        assert asked_there == []
        mixed = await stream.ask(id=3, state_id=state_id, keys=wire_keys(*ALL))
        assert len(values_by_position(mixed, 100)) == 100
        assert len(asked_there) == 1


async def test_a_prefix_query_is_relayed_too(
    proxy: ProxyServer, cluster: InProcessCluster, job: InProcessJob
) -> None:
    state_id = await state_id_of(cluster, "seen")
    async with RawStream(proxy.address) as stream:
        parts = await stream.ask(
            state_id=state_id, keys=wire_keys("sensor_1", *ALL[2:]), read=query_pb2.PREFIX
        )
    [value] = [value for part in parts for value in part.values]
    assert len(query_pb2.Records.FromString(value).values) == 1
    assert sum(len(part.missing) for part in parts) == 98


async def test_a_proxy_finds_the_new_owner_of_keys_that_moved(
    proxy: ProxyServer, cluster: InProcessCluster, job: InProcessJob
) -> None:
    """Its placement is old: the owner it knows is gone, the query comes through all the same."""
    state_id = await state_id_of(cluster)
    async with RawStream(proxy.address) as stream:
        await stream.ask(id=1, state_id=state_id, keys=wire_keys(*ALL))
        await cluster.stop_server(cluster.servers[1])
        await job.run(1, {"last": dict.fromkeys(ALL, 5.0)})
        parts = await stream.ask(
            id=2, state_id=state_id, keys=wire_keys(*ALL), allow_incomplete=True
        )
        assert values_by_position(parts, 100) == dict.fromkeys(range(100), 5.0)
        refused = await stream.ask(id=3, state_id=state_id, keys=wire_keys(*ALL))
        reasons = {failed.error.reason for part in refused for failed in part.failed} | {
            part.error.reason for part in refused if part.HasField("error")
        }
        assert reasons == {Reason.STATE_LOST}


async def test_keys_of_nobody_fail_in_time_and_the_others_are_answered(
    proxy: ProxyServer, cluster: InProcessCluster, job: InProcessJob
) -> None:
    """Before the asker's deadline, with reason and retry-after."""
    state_id = await state_id_of(cluster)
    gone = set(keys_of_server(cluster, 1))
    async with RawStream(proxy.address) as stream:
        await stream.ask(id=1, state_id=state_id, keys=wire_keys(*ALL))
        await cluster.stop_server(cluster.servers[1])
        started = time.monotonic()
        parts = await stream.ask(id=2, state_id=state_id, keys=wire_keys(*ALL), deadline_ms=600)
        # Well below the proxy's own default of ten seconds, on a busy machine, too.
        assert time.monotonic() - started < 3
    values = values_by_position(parts, 100)
    assert set(values) == {number for number, key in enumerate(ALL) if key not in gone}
    errors = [failed.error for part in parts for failed in part.failed]
    assert {error.reason for error in errors} <= {Reason.NO_OWNER, Reason.UNAVAILABLE}
    assert all(error.retry_after_ms for error in errors)


async def test_an_owner_that_never_answers_is_given_up_in_time(
    cluster: InProcessCluster, proxy: ProxyServer
) -> None:
    """The asker learns it from the proxy before its own deadline ends."""
    async with (
        _mute_owner(cluster) as state_id,
        RawStream(proxy.address) as stream,
    ):
        started = time.monotonic()
        [part] = await stream.ask(state_id=state_id, keys=wire_keys("k"), deadline_ms=400)
        assert time.monotonic() - started < 0.4
        assert part.error.reason == Reason.DEADLINE_EXCEEDED
        assert proxy.server_id in part.error.message


async def test_closing_a_proxy_leaves_no_task(cluster: InProcessCluster, job: InProcessJob) -> None:
    """With a stream open and a query that waits for an owner that never answers."""
    before = len(asyncio.all_tasks())
    async with _mute_owner(cluster) as state_id:
        proxy = await cluster.add_proxy()
        async with (
            RawStream(proxy.address) as stream,
        ):
            stream.send(state_id=state_id, keys=wire_keys("k"), deadline_ms=200)
            await proxy.aclose()
            await proxy.aclose()
    async with asyncio.timeout(10):
        while len(asyncio.all_tasks()) > before:  # noqa: ASYNC110 - tasks of many
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def _mute_owner(cluster: InProcessCluster) -> AsyncIterator[int]:
    """The state of a job of its own, whose owner says hello and never answers."""
    coordinator = cluster.coordinator
    query_id, _ = coordinator.engine.start("mute")
    subtask = backend_pb2.Subtask(
        query_id=query_id, operator_uid="op", parallelism=1, max_parallelism=128
    )
    state = declare("mute", "string", "double")
    state.job_id = query_id
    state.operator_uid = "op"
    async with (
        mute_frames("mute") as frames,
        CoordinatorClient(coordinator.address, coordinator.secret) as link,
    ):
        await link.register_server(
            coordinator_pb2.RegisterServerRequest(
                server_id="mute",
                executor_id="mute",
                query_address="127.0.0.1:1",
                proxy_address="127.0.0.1:1",
                backend_address="127.0.0.1:1",
                frames=frames,
            )
        )
        await link.assign_subtask(
            coordinator_pb2.AssignSubtaskRequest(subtask=subtask, server_id="mute")
        )
        registered = await link.register_states(
            coordinator_pb2.RegisterStatesRequest(subtask=subtask, states=[state])
        )
        yield registered.states[0].state_id


def test_all_kinds_of_state_have_a_way_to_be_read() -> None:
    location = registration_pb2.StateLocation(
        registration=registration_pb2.StateRegistration(
            kind=registration_pb2.STATE_KIND_UNSPECIFIED
        )
    )
    with pytest.raises(InvalidRequestError, match="STATE_KIND_UNSPECIFIED"):
        LocatedState.of(location)


async def test_a_query_that_waits_for_long_does_not_keep_a_proxy_from_closing(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    """It is given the time to drain, not the minutes its asker would wait."""
    state_id = await state_id_of(cluster)
    gone = keys_of_server(cluster, 1)
    await cluster.stop_server(cluster.servers[1])
    proxy = await cluster.add_proxy(drain_timeout_s=0.1)
    async with (
        RawStream(proxy.address) as stream,
    ):
        stream.send(id=1, state_id=state_id, keys=wire_keys(*gone), deadline_ms=600_000)
        await stream.ask(id=2, state_id=1 << 31, keys=wire_keys("x"))
        async with asyncio.timeout(10):
            await proxy.aclose()


async def test_an_idle_stream_is_ended_at_once_by_a_proxy_that_closes(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    """Its client has nothing to wait for there, and is told to go elsewhere."""
    state_id = await state_id_of(cluster)
    proxy = await cluster.add_proxy(drain_timeout_s=60)
    async with (
        RawStream(proxy.address) as stream,
    ):
        await stream.ask(id=1, state_id=state_id, keys=wire_keys("a"))
        async with asyncio.timeout(10):
            await proxy.aclose()
            assert (await stream.frames.refusal()).reason == Reason.STOPPING


async def test_owners_that_have_not_changed_do_not_travel_again(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    """A name is asked again after a while, and answered with what is known of the owners."""
    request = query_pb2.LocateStateRequest(job="sensors", state_name="last")
    async with CoordinatorClient(cluster.coordinator.address, cluster.coordinator.secret) as link:
        said: list[query_pb2.LocateStateResponse] = []
        locate_state = link.locate_state

        async def noted(
            request: query_pb2.LocateStateRequest, *, timeout_s: float | None = None
        ) -> query_pb2.LocateStateResponse:
            said.append(await locate_state(request, timeout_s=timeout_s))
            return said[-1]

        link.locate_state = noted  # type: ignore[method-assign]
        locations = LocationTable(link)
        first = await locations.locate(request)
        # Asked for a newer one, it always asks.
        request.newer_than = first.placement_version
        assert await locations.locate(request) is first
        await locations.aclose()
    assert [response.unchanged for response in said] == [False, True]
    assert not said[1].location.owners
