"""Many keys, each with what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.client.asking import client_of, until_direct

from queryable_state.client import (
    ClientClosedError,
    KeyStatus,
    KeyTypeError,
    PlacementError,
    QueryTimeoutError,
    RetryLaterError,
    StateLostError,
    Types,
    UnknownJobError,
    UnknownKeyOrNamespaceError,
    UnknownStateError,
)

if TYPE_CHECKING:
    from queryable_state.client import QueryableStateClient
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob

KEYS = [f"sensor_{number}" for number in range(100)]


async def test_each_key_has_its_status(client: QueryableStateClient) -> None:
    """Found, missing, and of another type; also where a key is asked for twice."""
    for _ in range(2):
        # The second time the client knows the key's type before it asks.
        result = await client.multi_get("sensors", "last", ["sensor_3", "nobody", 7, "sensor_3"])
        assert [each.status for each in result] == [
            KeyStatus.FOUND,
            KeyStatus.MISSING,
            KeyStatus.FAILED,
            KeyStatus.FOUND,
        ]
        assert [(key, state.value()) for key, state in result.found()] == [("sensor_3", 3.0)] * 2
        assert result.missing == ["nobody"]
        [(key, error)] = result.failed
        assert (key, type(error)) == (7, KeyTypeError)
        assert result[0].get().value() == 3.0
        assert result[1].info is not None
        assert result[1].info.version == 1
        with pytest.raises(UnknownKeyOrNamespaceError, match="nobody"):
            result[1].get()
        with pytest.raises(KeyTypeError):
            result[2].get()
        assert [each.key for each in result[1:3]] == ["nobody", 7]
        assert repr(result) == "<MultiGet of 4 keys: 2 found, 1 missing, 1 failed>"


async def test_every_owner_that_answered_says_so(
    client: QueryableStateClient, cluster: InProcessCluster
) -> None:
    await until_direct(client, cluster)
    result = await client.multi_get("sensors", "last", (key for key in KEYS))
    assert set(result.info) == {server.server_id for server in cluster.servers}
    assert {info.version for info in result.info.values()} == {1}
    assert result.version == 1
    assert len(result.found()) == 100


async def test_no_keys_are_no_question(client: QueryableStateClient) -> None:
    for one_cut in (False, True):
        result = await client.multi_get("sensors", "last", [], one_cut=one_cut)
        assert (len(result), result.version, result.info) == (0, None, {})
        assert await client.get_kv_states("sensors", "last", [], one_cut=one_cut) == []


@pytest.mark.parametrize("direct", [True, False], ids=["direct", "proxy"])
async def test_keys_of_owners_that_are_there_are_answered(
    cluster: InProcessCluster, job: InProcessJob, direct: bool
) -> None:
    """A server is gone: its keys fail alone, and only once time is over."""
    proxy = await cluster.add_proxy()
    async with client_of(proxy.address, direct=direct, timeout_s=1.5) as client:
        whole = await client.multi_get("sensors", "last", KEYS, timeout_s=20)
        assert len(whole.found()) == 100
        gone = cluster.servers[1].server_id
        await cluster.stop_server(cluster.servers[1])
        result = await client.multi_get("sensors", "last", KEYS)
        assert len(result.found()) + len(result.failed) == 100
        assert result.found()
        assert gone not in result.info
        for _, error in result.failed:
            assert isinstance(error, PlacementError | RetryLaterError)


async def test_lost_state_is_a_status_too(cluster: InProcessCluster, job: InProcessJob) -> None:
    proxy = await cluster.add_proxy()
    async with client_of(proxy.address) as client:
        await client.get_kv_states("sensors", "last", KEYS)
        await cluster.stop_server(cluster.servers[1])
        await job.run(2, {"last": dict.fromkeys(KEYS, -1.0)})
        result = await client.multi_get("sensors", "last", KEYS)
        assert result.failed
        assert {type(error) for _, error in result.failed} == {StateLostError}
        anyway = await client.multi_get("sensors", "last", KEYS, allow_incomplete=True)
        assert [state.value() for _, state in anyway.found()] == [-1.0] * 100


@pytest.mark.parametrize("one_cut", [True, False])
async def test_what_is_wrong_with_the_call_is_raised(
    client: QueryableStateClient, one_cut: bool
) -> None:
    """Not once per key: no key can be read."""
    with pytest.raises(UnknownJobError):
        await client.multi_get("senors", "last", KEYS, one_cut=one_cut)
    with pytest.raises(UnknownStateError):
        await client.multi_get("sensors", "lost", KEYS, one_cut=one_cut)
    with pytest.raises(KeyTypeError, match="key_type"):
        await client.multi_get("sensors", "last", KEYS, key_type=Types.LONG(), one_cut=one_cut)


@pytest.mark.parametrize("one_cut", [True, False])
async def test_closing_fails_the_call(
    cluster: InProcessCluster, job: InProcessJob, one_cut: bool
) -> None:
    client = client_of("127.0.0.1:1")
    pending = client.multi_get("sensors", "last", KEYS, one_cut=one_cut)
    await client.aclose()
    with pytest.raises(ClientClosedError):
        await pending
    with pytest.raises(ClientClosedError):
        await client.multi_get("sensors", "last", KEYS, one_cut=one_cut)


@pytest.mark.parametrize("one_cut", [True, False])
@pytest.mark.parametrize("direct", [True, False], ids=["direct", "proxy"])
async def test_a_call_that_reaches_nobody_raises(
    cluster: InProcessCluster, job: InProcessJob, direct: bool, one_cut: bool
) -> None:
    """Also after the client has read before: what it knew is no answer."""
    proxy = await cluster.add_proxy()
    async with client_of(proxy.address, direct=direct) as client:
        assert (await client.multi_get("sensors", "last", KEYS, one_cut=one_cut)).complete
        for server in tuple(cluster.servers):
            await cluster.stop_server(server)
        with pytest.raises((RetryLaterError, PlacementError, QueryTimeoutError)):
            await client.multi_get("sensors", "last", [*KEYS, 7], one_cut=one_cut, timeout_s=1)


async def test_a_partial_answer_can_be_raised(client: QueryableStateClient) -> None:
    partial = await client.multi_get("sensors", "last", ["sensor_3", 7])
    assert not partial.complete
    with pytest.raises(KeyTypeError):
        partial.raise_if_failed()
    whole = await client.multi_get("sensors", "last", ["sensor_3", "nobody"])
    assert whole.complete
    whole.raise_if_failed()


async def test_keys_of_another_type_alone_raise(client: QueryableStateClient) -> None:
    with pytest.raises(KeyTypeError):
        await client.multi_get("sensors", "last", [7, 8])
