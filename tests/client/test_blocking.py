"""The client for threads."""

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

import pytest

from queryable_state.client import (
    ClientClosedError,
    Consistency,
    InvalidRequestError,
    RetryLaterError,
    UnknownKeyOrNamespaceError,
    UnknownStateError,
)
from queryable_state.client.blocking import QueryableStateClient

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob

_Result = TypeVar("_Result")


def _client_of(address: str, **settings: float) -> QueryableStateClient:
    host, _, port = address.rpartition(":")
    return QueryableStateClient(host, int(port), **settings)  # type: ignore[arg-type]


async def _in_thread(work: Callable[[], _Result]) -> _Result:
    # The cluster runs on the test's loop, which a blocking call must not hold up.
    return await asyncio.get_running_loop().run_in_executor(None, work)


async def test_every_call_returns_what_the_await_would(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    def use() -> None:
        with _client_of(cluster.servers[0].addresses.proxy) as client:
            assert client.get_kv_state("sensors", "last", "sensor_7").value() == 7.0
            states = client.get_kv_states("sensors", "last", ["sensor_1", "nobody"])
            assert [state and state.value() for state in states] == [1.0, None]
            assert [listed.name for listed in client.list_jobs()] == ["sensors"]
            assert len(client.list_states(job.job_id)) == 5
            with pytest.raises(UnknownKeyOrNamespaceError):
                client.get_kv_state("sensors", "last", "nobody")
            with pytest.raises(InvalidRequestError):
                client.get_kv_state("sensors", "", "sensor_1")

    await _in_thread(use)


async def test_every_question_has_its_blocking_call(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    def use() -> None:
        with _client_of(cluster.servers[0].addresses.proxy) as client:
            read = Consistency.at_least(1)
            result = client.multi_get("sensors", "last", iter(["sensor_1", "nobody"]), one_cut=True)
            assert (len(result.found()), result.missing, result.version) == (1, ["nobody"], 1)
            states = client.get_kv_states("sensors", "last", ["sensor_1"], one_cut=True)
            assert [state and state.value() for state in states] == [1.0]
            entry = client.get_map_entry("sensors", "counts", "sensor_1", "y", consistency=read)
            assert entry.value() == 2
            assert client.contains("sensors", "counts", "sensor_1", "y")
            assert not client.contains("sensors", "last", "nobody")
            assert client.size("sensors", "seen", "sensor_1").elements == 2
            assert client.measure("sensors", "last").records == 100
            explained = client.explain("sensors", "last", "sensor_1")
            assert explained.state is not None
            assert explained.state.value() == 1.0
            assert {connection.transport for connection in client.connections()} == {"frames"}

    await _in_thread(use)


async def test_a_scan_is_a_plain_iterator(cluster: InProcessCluster, job: InProcessJob) -> None:
    def use() -> None:
        with _client_of(cluster.servers[0].addresses.proxy) as client:
            scan = client.scan("sensors", "last")
            values = {key: state.value() for key, state in scan if state is not None}
            assert values == {f"sensor_{number}": float(number) for number in range(100)}
            assert scan.complete
            assert scan.info is not None
            assert scan.info.version == 1
            with client.scan("sensors", "last", limit=10, keys_only=True) as first:
                pages = list(first.pages())
            assert [state for page in pages for _, state in page] == [None] * 10
            rest = client.scan("sensors", "last", page_token=first.page_token)
            assert len(list(rest)) == 90
            left = client.scan("sensors", "last")
            next(left)
            left.close()
            assert list(left) == []
            with pytest.raises(InvalidRequestError, match="not both"):
                client.scan("sensors", "last", start="a", prefix="b")
            with pytest.raises(UnknownStateError):
                next(client.scan("sensors", "lost"))
            open_still = client.scan("sensors", "last")
            next(open_still)
        open_still.close()
        with pytest.raises(ClientClosedError):
            client.scan("sensors", "last")

    await _in_thread(use)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
async def test_a_scan_and_a_watch_hold_their_client(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    def use() -> None:
        scan = _client_of(cluster.servers[0].addresses.proxy).scan("sensors", "last", limit=10)
        gc.collect()
        assert len(list(scan)) == 10
        watch = _client_of(cluster.servers[0].addresses.proxy).watch("sensors", "last")
        gc.collect()
        with watch:
            assert watch.batch == 1

    await _in_thread(use)


async def test_many_threads_share_one_client(cluster: InProcessCluster, job: InProcessJob) -> None:
    def use() -> None:
        with (
            _client_of(cluster.servers[0].addresses.proxy) as client,
            ThreadPoolExecutor(32) as threads,
        ):
            states = threads.map(
                lambda n: client.get_kv_state("sensors", "last", f"sensor_{n % 100}"), range(2000)
            )
            assert [state.value() for state in states] == [n % 100 for n in range(2000)]

    await _in_thread(use)


async def test_closing_ends_the_thread_and_who_waits(cluster: InProcessCluster) -> None:
    """A query that waits in another thread fails at once; calls after it, too."""
    for server in list(cluster.servers):
        await cluster.stop_server(server)
    address = "127.0.0.1:1"
    client = _client_of(address, timeout_s=30.0)
    outcome: list[BaseException] = []
    asking = threading.Event()

    def ask() -> None:
        asking.set()
        try:
            client.get_kv_state("sensors", "last", "sensor_1")
        except (ClientClosedError, RetryLaterError) as error:
            outcome.append(error)

    thread = threading.Thread(target=ask)
    thread.start()

    def close() -> None:
        asking.wait(10)
        client.close()
        client.close()
        thread.join(10)

    await _in_thread(close)
    assert not thread.is_alive()
    assert [type(error) for error in outcome] == [ClientClosedError]
    with pytest.raises(ClientClosedError):
        client.list_jobs()
    assert not [t for t in threading.enumerate() if address in t.name]


def test_a_client_left_open_is_reported_and_ends_its_thread() -> None:
    client = _client_of("127.0.0.1:1")
    with client, pytest.warns(ResourceWarning, match="never closed"):
        client.__del__()
    client.__del__()
