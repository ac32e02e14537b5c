"""What bad input gets: one typed error each, that says what, where and what to do."""

from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from tests.client.asking import client_of
from tests.waiting import DEADLINE_S

from queryable_state.client import (
    AmbiguousJobError,
    ClientClosedError,
    ClientUnusableError,
    DescriptorMismatchError,
    InvalidRequestError,
    KeyTypeError,
    LimitExceededError,
    QueryableStateClient,
    QueryTimeoutError,
    Reason,
    RetryLaterError,
    Types,
    UnknownJobError,
    UnknownKeyOrNamespaceError,
    UnknownStateError,
)
from queryable_state.server.testing.cluster import declare

if TYPE_CHECKING:
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob


async def test_an_unknown_key_names_job_state_and_key(
    client: QueryableStateClient, job: InProcessJob
) -> None:
    with pytest.raises(UnknownKeyOrNamespaceError) as raised:
        await client.get_kv_state("sensors", "last", "sensor_999")
    assert isinstance(raised.value, KeyError)
    for part in ("'sensor_999'", "'last'", "'sensors'", job.job_id):
        assert part in str(raised.value)


async def test_an_unknown_job_lists_the_known_ones(client: QueryableStateClient) -> None:
    with pytest.raises(UnknownJobError, match="sensors") as raised:
        await client.get_kv_state("senors", "last", "sensor_1")
    assert raised.value.candidates


async def test_an_unknown_state_lists_the_known_ones(client: QueryableStateClient) -> None:
    with pytest.raises(UnknownStateError) as raised:
        await client.get_kv_states("sensors", "lost", ["sensor_1"])
    assert "last" in raised.value.candidates


@pytest.mark.parametrize("name", ["state_{}", "état de {} à l'entrée"])
async def test_an_unknown_state_among_very_many_is_refused_alike(
    client: QueryableStateClient, cluster: InProcessCluster, name: str
) -> None:
    """A gRPC status has room for some of the names."""
    job = cluster.job("many", *(declare(name.format(number)) for number in range(600)))
    await job.run(0, {})
    with pytest.raises(UnknownStateError, match="no queryable state 'lost'") as raised:
        await client.get_kv_state("many", "lost", "a")
    assert len(raised.value.candidates) > 20
    assert len(raised.value.message) <= 2_100


async def test_a_job_must_be_named_where_two_have_the_state(
    client: QueryableStateClient, cluster: InProcessCluster
) -> None:
    other = cluster.job("other", declare("last", "string", "double"))
    await other.run(0, {"last": {"sensor_1": 5.0}})
    with pytest.raises(AmbiguousJobError) as raised:
        await client.get_kv_state(None, "last", "sensor_1")
    assert len(raised.value.candidates) == 2
    assert (await client.get_kv_state("other", "last", "sensor_1")).value() == 5.0


@pytest.mark.parametrize("located", [True, False])
@pytest.mark.parametrize("key", [7, b"bytes", None, ("sensor_1",)])
async def test_a_key_of_another_type_is_refused(
    client: QueryableStateClient, located: bool, key: Any
) -> None:
    """Before and after the client knows the type; the keys beside it are answered."""
    if located:
        await client.get_kv_state("sensors", "last", "sensor_1")
    wrong = client.get_kv_state("sensors", "last", key)
    right = client.get_kv_state("sensors", "last", "sensor_1")
    with pytest.raises(KeyTypeError, match="'last' of job 'sensors'"):
        await wrong
    assert (await right).value() == 1.0
    with pytest.raises(KeyTypeError):
        await client.get_kv_states("sensors", "last", ["sensor_1", key])


async def test_a_key_type_that_disagrees_names_both(client: QueryableStateClient) -> None:
    for key_type in (Types.LONG(), "bigint"):
        with pytest.raises(KeyTypeError, match="type string, not bigint"):
            await client.get_kv_state("sensors", "last", 7, key_type=key_type)
    same = await client.get_kv_state("sensors", "last", "sensor_1", key_type=Types.STRING())
    assert same.value() == 1.0


async def test_a_descriptor_that_disagrees_names_both(client: QueryableStateClient) -> None:
    """Any object with a descriptor's attributes is one."""
    wrong_kind = SimpleNamespace(kind="LIST", value_type=None)
    wrong_type = SimpleNamespace(kind="VALUE", value_type="string")
    wrong_entry = SimpleNamespace(kind="map", value_type="bigint", map_key_type="bigint")
    with pytest.raises(DescriptorMismatchError, match=r"VALUE state, the descriptor .* kind LIST"):
        await client.get_kv_state("sensors", "last", "sensor_1", descriptor=wrong_kind)
    with pytest.raises(DescriptorMismatchError, match=r"double, the descriptor .* says string"):
        await client.get_kv_states("sensors", "last", ["sensor_1"], descriptor=wrong_type)
    with pytest.raises(DescriptorMismatchError, match="map keys"):
        await client.get_kv_state("sensors", "counts", "sensor_1", descriptor=wrong_entry)
    right = SimpleNamespace(kind="VALUE", value_type=Types.DOUBLE())
    state = await client.get_kv_state("sensors", "last", "sensor_1", descriptor=right)
    assert state.value() == 1.0


async def test_what_is_no_descriptor_is_refused(client: QueryableStateClient) -> None:
    for nonsense in (object(), SimpleNamespace(kind="SHOE")):
        with pytest.raises(InvalidRequestError):
            await client.get_kv_state("sensors", "last", "sensor_1", descriptor=nonsense)
    with pytest.raises(InvalidRequestError):
        await client.get_kv_state("sensors", "last", "sensor_1", key_type="no such type")


async def test_a_key_over_the_limit_is_refused(client: QueryableStateClient) -> None:
    """The connection and the other queries on it live on."""
    for direct in (True, False):
        long = client.get_kv_state("sensors", "last", "x" * 70_000)
        with pytest.raises(LimitExceededError, match="65,536 allowed"):
            await long
        assert (await client.get_kv_state("sensors", "last", "sensor_1")).value() == 1.0, direct


async def test_nobody_at_the_address_is_said_within_the_timeout() -> None:
    port = _closed_port()
    async with client_of(f"127.0.0.1:{port}", timeout_s=0.3) as client:
        for ask in (
            lambda: client.get_kv_state("sensors", "last", "sensor_1"),
            lambda: client.get_kv_states("sensors", "last", ["sensor_1"]),
            client.list_jobs,
        ):
            with pytest.raises(RetryLaterError, match=f"127.0.0.1:{port}") as raised:
                await ask()
            assert raised.value.reason == Reason.UNAVAILABLE
            assert raised.value.retry_after_ms > 0


async def test_a_closed_client_says_so(client: QueryableStateClient) -> None:
    await client.get_kv_state("sensors", "last", "sensor_1")
    await client.aclose()
    with pytest.raises(ClientClosedError):
        await client.get_kv_state("sensors", "last", "sensor_1")
    with pytest.raises(ClientClosedError):
        await client.get_kv_states("sensors", "last", ["sensor_1"])
    with pytest.raises(ClientClosedError):
        await client.list_jobs()


def test_a_client_is_asked_on_one_event_loop() -> None:
    """Outside of any, and on another than before, it says so."""
    client = QueryableStateClient("127.0.0.1", 1, timeout_s=0.05)
    with pytest.raises(ClientUnusableError, match="running event loop"):
        client.get_kv_state("sensors", "last", "sensor_1")

    async def ask(*errors: type[Exception]) -> None:
        with pytest.raises(errors):
            await client.get_kv_states("sensors", "last", ["sensor_1"])

    with asyncio.Runner() as first, asyncio.Runner() as second:
        first.run(ask(RetryLaterError, QueryTimeoutError))
        second.run(ask(ClientUnusableError))
        first.run(client.aclose())


@pytest.mark.parametrize("options", [{}, {"timeout_s": DEADLINE_S}])
async def test_a_look_up_like_an_earlier_one_is_refused_on_another_loop(
    client: QueryableStateClient, options: dict[str, Any]
) -> None:
    """As in a program that calls `asyncio.run` twice with one client."""
    await client.get_kv_state("sensors", "last", "sensor_1", **options)

    async def ask() -> None:
        await client.get_kv_state("sensors", "last", "sensor_1", **options)

    with pytest.raises(ClientUnusableError, match="event loop it was first used on"):
        await asyncio.to_thread(asyncio.run, ask())
    state = await client.get_kv_state("sensors", "last", "sensor_1", **options)
    assert state.value() == 1.0


@pytest.mark.parametrize(
    "arguments",
    [
        {"host": "", "port": 9069},
        {"host": "localhost", "port": 0},
        {"host": "localhost", "port": "9069"},
        {"host": "localhost", "timeout_s": 0},
        {"host": "localhost", "timeout_s": "soon"},
    ],
)
def test_a_client_refuses_settings_that_cannot_work(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError):
        QueryableStateClient(**arguments)


@pytest.mark.parametrize("limit", [0, 1001, 1.5, "5", True, None])
async def test_a_limit_of_hot_keys_that_is_none_is_refused(
    client: QueryableStateClient, limit: Any
) -> None:
    with pytest.raises(InvalidRequestError, match="limit must be 1 to 1000"):
        await client.hot_keys("sensors", "last", limit=limit)


@pytest.mark.parametrize(
    ("job_name", "state_name", "timeout_s"),
    [("", "last", None), (7, "last", None), ("sensors", "", None), ("sensors", "last", -1)],
)
async def test_arguments_that_can_never_work_are_refused(
    client: QueryableStateClient, job_name: Any, state_name: str, timeout_s: float | None
) -> None:
    with pytest.raises(InvalidRequestError):
        await client.get_kv_state(job_name, state_name, "sensor_1", timeout_s=timeout_s)


def _closed_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
    return port
