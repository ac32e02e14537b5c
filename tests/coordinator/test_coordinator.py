"""The coordinator's port, secret and end; its clients."""

from __future__ import annotations

import asyncio
import gc
import stat
import tempfile
from typing import TYPE_CHECKING

import grpc
import pytest

from queryable_state.internal.v1 import backend_pb2, coordinator_pb2, coordinator_pb2_grpc
from queryable_state.server.coordinator import Coordinator
from queryable_state.server.coordinator.settings import CoordinatorSettings
from queryable_state.server.coordinator_client import CoordinatorClient
from queryable_state.server.testing import InMemoryEngine, in_process_coordinator
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import (
    AuthenticationError,
    InvalidRequestError,
    PlacementError,
    QueryTimeoutError,
    Reason,
    RetryLaterError,
)
from queryable_state.wire.status import error_from_call

if TYPE_CHECKING:
    from pathlib import Path

    from tests.coordinator.peer import StartPeer

    from queryable_state.server.testing import InProcessCoordinator

LIST = query_pb2.ListJobsRequest()


async def test_a_call_with_another_secret_is_refused(running: InProcessCoordinator) -> None:
    async with CoordinatorClient(running.address, "wrong") as client:
        with pytest.raises(AuthenticationError, match="signed with another one"):
            await client.list_jobs(LIST)


def test_a_call_without_a_secret_is_refused(running: InProcessCoordinator) -> None:
    with grpc.insecure_channel(running.address) as channel, pytest.raises(grpc.RpcError) as refusal:
        coordinator_pb2_grpc.CoordinatorStub(channel).ListJobs(LIST, timeout=10)
    assert error_from_call(refusal.value, "").reason == Reason.UNAUTHENTICATED


@pytest.mark.parametrize("secret", ["", " \n"])
def test_an_empty_secret_is_refused(secret: str) -> None:
    with pytest.raises(InvalidRequestError, match="secret must not be empty"):
        CoordinatorClient("127.0.0.1:1", secret)


async def test_the_secret_is_made_and_offered_in_a_file_of_its_owner(
    running: InProcessCoordinator,
) -> None:
    path = running.coordinator.secret_file
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    async with CoordinatorClient(running.address, path.read_text()) as client:
        assert not (await client.list_jobs(LIST)).jobs
    running.coordinator.close()
    assert not path.exists()


def test_the_secret_of_a_killed_driver_goes_with_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    abandoned = tmp_path / "queryable-state-killed"
    abandoned.mkdir()
    (abandoned / "secret").write_text("s3cret")
    server = tmp_path / "queryable-state-local-1-2-3"
    server.mkdir()
    with in_process_coordinator() as first, in_process_coordinator() as second:
        assert not abandoned.exists()
        assert server.exists()
        for running in (first, second):
            assert running.coordinator.secret_file.read_text() == running.secret


async def test_a_refusal_arrives_as_it_was_raised(running: InProcessCoordinator) -> None:
    async with CoordinatorClient(running.address, running.secret) as client:
        with pytest.raises(PlacementError) as refusal:
            await client.heartbeat(coordinator_pb2.HeartbeatRequest(server_id="nobody"))
        assert refusal.value.reason == Reason.LEASE_EXPIRED
        subtask = backend_pb2.Subtask(query_id=b"short", operator_uid="op", parallelism=1)
        with pytest.raises(InvalidRequestError, match="16 bytes"):
            await client.assign_subtask(coordinator_pb2.AssignSubtaskRequest(subtask=subtask))


async def test_a_coordinator_that_is_not_there_is_told() -> None:
    async with CoordinatorClient("127.0.0.1:1", "secret") as client:
        with pytest.raises(
            RetryLaterError, match=r"no coordinator answers at 127\.0\.0\.1:1"
        ) as no:
            await client.list_jobs(LIST)
    assert no.value.retry_after_ms > 0


async def test_a_coordinator_that_does_not_answer_is_told() -> None:
    server = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)
    address = "{}:{}".format(*server.sockets[0].getsockname())
    async with CoordinatorClient(address, "secret", timeout_s=0.05) as client:
        with pytest.raises((QueryTimeoutError, RetryLaterError)):
            await client.list_jobs(LIST)
        pending = asyncio.ensure_future(client.list_jobs(LIST, timeout_s=30))
        await asyncio.sleep(0)
        await client.aclose()
        await client.aclose()
        with pytest.raises(RetryLaterError, match="is closed"):
            await pending
        with pytest.raises(RetryLaterError, match="is closed"):
            await client.list_jobs(LIST)
    server.close()


async def test_a_cancelled_caller_stays_cancelled(running: InProcessCoordinator) -> None:
    async with CoordinatorClient(running.address, running.secret) as client:
        pending = asyncio.ensure_future(client.list_jobs(LIST))
        await asyncio.sleep(0)
        pending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await pending


async def test_a_link_left_open_warns() -> None:
    client = CoordinatorClient("127.0.0.1:1", "secret")
    channel = client._channel
    with pytest.warns(ResourceWarning, match="unclosed client"):  # noqa: PT031 - both make it warn
        del client
        gc.collect()
    await channel.close()


def test_closing_ends_the_servers_and_may_be_repeated(
    running: InProcessCoordinator, start_peer: StartPeer
) -> None:
    peers = [start_peer("a"), start_peer("b")]
    assert running.coordinator.proxy_addresses() == ["a:9069", "b:9069"]
    running.coordinator.close()
    running.coordinator.close()
    assert [peer.shutdowns for peer in peers] == [1, 1]
    running.coordinator.batch_committed(b"x" * 16, 0)
    with pytest.raises(RetryLaterError, match="make a new one"):
        running.coordinator.start()


def test_a_taken_port_is_passed_over_only_where_the_setting_allows_any(
    running: InProcessCoordinator,
) -> None:
    port = running.address.rpartition(":")[2]
    with Coordinator(InMemoryEngine(), CoordinatorSettings(ports=f"{port},0")) as second:
        assert second.address != running.address
    strict = Coordinator(InMemoryEngine(), CoordinatorSettings(ports=port))
    with pytest.raises(InvalidRequestError, match=f"coordinator_ports is '{port}', and no port"):
        strict.start()
