"""Explanations of look-ups, and size estimates of states."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.client.asking import client_of, until_direct

from queryable_state.client import (
    Consistency,
    InvalidRequestError,
    KeyTypeError,
    Reason,
    RetryLaterError,
    Role,
    UnknownJobError,
    UnknownKeyOrNamespaceError,
)

if TYPE_CHECKING:
    from queryable_state.client import QueryableStateClient
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob


@pytest.mark.parametrize("direct", [True, False], ids=["direct", "proxy"])
async def test_a_lookup_says_who_answered_and_what_each_step_took(
    cluster: InProcessCluster, job: InProcessJob, direct: bool
) -> None:
    proxy = await cluster.add_proxy()
    owners = {server.server_id: server.addresses.query for server in cluster.servers}
    async with client_of(proxy.address, direct=direct) as client:
        if direct:
            await until_direct(client, cluster)
        for number in (1, 2, 3, 4):
            found = await client.explain("sensors", "last", f"sensor_{number}")
            assert found.error is None
            assert found.state is not None
            assert found.state.value() == number
            assert found.owner_address == owners[found.owner_id]
            assert 0 <= found.key_group < 128
            assert found.subtask == found.key_group * 2 // 128
            assert found.operator_uid == "operator"
            assert found.placement_version > 0
            names = [step.name for step in found.steps]
            assert names[:3] == ["locate", "batch", "client to server"]
            assert "over frames" in found.steps[2].detail
            assert "read" in names
            assert found.steps[0].cache_hit == (direct or number > 1)
            assert found.hops == (1 if direct else 2)
            assert found.server_us <= found.steps[2].took_us <= found.total_us
            assert {step.role for step in found.steps[3:]} <= {Role.OWNER, Role.PROXY}
            text = str(found)
            for part in (f"sensor_{number}", found.owner_id, "client to server", "read"):
                assert part in text


async def test_a_missing_key_is_explained(client: QueryableStateClient) -> None:
    missing = await client.explain("sensors", "last", "nobody")
    assert missing.state is None
    assert isinstance(missing.error, UnknownKeyOrNamespaceError)
    assert "'nobody'" in str(missing.error)
    assert missing.owner_id
    assert "read" in [step.name for step in missing.steps]


async def test_every_kind_of_state_is_explained(client: QueryableStateClient) -> None:
    explained = await client.explain("sensors", "counts", "sensor_1")
    assert explained.state is not None
    assert dict(explained.state.items()) == {"x": 1, "y": 2}


async def test_what_an_owner_refuses_stands_in_the_explanation(
    client: QueryableStateClient, cluster: InProcessCluster
) -> None:
    await until_direct(client, cluster)
    behind = await client.explain(
        "sensors", "last", "sensor_1", consistency=Consistency.at_least(9), timeout_s=0.5
    )
    assert behind.error is not None
    assert behind.error.reason == Reason.BEHIND
    assert "wait" in [step.name for step in behind.steps]


async def test_a_new_owner_is_found_on_the_way(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    """An owner that is gone is no error of the look-up."""
    proxy = await cluster.add_proxy()
    async with client_of(proxy.address) as client:
        await until_direct(client, cluster)
        second = cluster.servers[1].server_id
        owners = {
            (await client.explain("sensors", "last", f"sensor_{number}")).owner_id: number
            for number in range(20)
        }
        on_second = f"sensor_{owners[second]}"
        await cluster.stop_server(cluster.servers[1])
        await job.run(2, {"last": {on_second: -1.0}})
        found = await client.explain("sensors", "last", on_second, allow_incomplete=True)
        assert found.state is not None
        assert found.state.value() == -1.0
        assert found.owner_id == cluster.servers[0].server_id


async def test_wrong_questions_are_refused(client: QueryableStateClient) -> None:
    with pytest.raises(UnknownJobError):
        await client.explain("senors", "last", "sensor_1")
    with pytest.raises(KeyTypeError, match="last"):
        await client.explain("sensors", "last", 7)
    with pytest.raises(InvalidRequestError):
        await client.measure("sensors", "")
    with pytest.raises(UnknownJobError):
        await client.measure("senors", "last")


async def test_nobody_to_ask_is_a_typed_error_in_time() -> None:
    async with client_of("127.0.0.1:1", timeout_s=0.4) as client:
        with pytest.raises(RetryLaterError, match=r"127\.0\.0\.1:1"):
            await client.explain("sensors", "last", "sensor_1")
        with pytest.raises(RetryLaterError, match=r"127\.0\.0\.1:1"):
            await client.measure("sensors", "last")


@pytest.mark.parametrize("direct", [True, False], ids=["direct", "proxy"])
async def test_a_state_is_measured_over_all_its_owners(
    cluster: InProcessCluster, job: InProcessJob, direct: bool
) -> None:
    async with client_of(cluster.servers[0].addresses.proxy, direct=direct) as client:
        measured = await client.measure("sensors", "last")
        assert measured.complete
        assert measured.records == 100
        assert measured.bytes > 0
        assert [part.subtask for part in measured.parts] == [0, 1]
        assert [(part.first_key_group, part.last_key_group) for part in measured.parts] == [
            (0, 63),
            (64, 127),
        ]
        assert sum(part.records for part in measured.parts) == 100
        assert {part.info.server_id for part in measured.parts} == {
            server.server_id for server in cluster.servers
        }
        assert {part.error for part in measured.parts} == {None}
