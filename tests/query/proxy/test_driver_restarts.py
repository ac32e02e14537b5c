"""Stand-alone proxies that follow their driver: to another port, with another secret."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import stat
import sys
import time
from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.client.asking import client_of
from tests.waiting import DEADLINE_S, eventually

from queryable_state.client import RetryLaterError
from queryable_state.server.checkpoint.endpoint_file import Endpoint, read_endpoint
from queryable_state.server.checkpoint.file_systems.storage import MissingFileError
from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.server.cli.driver_arguments import SECRET_VARIABLE
from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob, declare
from queryable_state.wire.errors import AuthenticationError, InvalidRequestError

if TYPE_CHECKING:
    from pathlib import Path

    from queryable_state.client import QueryableStateClient

KEYS = [f"sensor_{number}" for number in range(20)]


def endpoint_of(folder: Path) -> Endpoint:
    return read_endpoint(str(folder), storage_of(str(folder)))


async def first_run(cluster: InProcessCluster) -> InProcessJob:
    job = cluster.job("sensors", declare("last", "string", "double"), durable=True)
    await job.run(0, {"last": dict.fromkeys(KEYS, 1.0)})
    return job


async def values(client: QueryableStateClient) -> set[float | None]:
    states = await client.get_kv_states("sensors", "last", KEYS)
    return {None if state is None else state.value() for state in states}


async def killed(cluster: InProcessCluster, job: InProcessJob) -> None:
    """Ends a cluster, and leaves its endpoint file as `kill -9` does."""
    file = job.root / "_endpoint"
    content = file.read_bytes()
    await cluster.__aexit__()
    file.write_bytes(content)


async def next_run(cluster: InProcessCluster, job: InProcessJob, value: float) -> None:
    again = cluster.job(
        "sensors", declare("last", "string", "double"), durable=True, query_id=job.query_id
    )
    await again.run(1, {"last": dict.fromkeys(KEYS, value)})


async def test_a_proxy_finds_a_driver_that_starts_again_while_clients_wait(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Another port, another secret, other servers; clients of the proxy see only a pause."""
    caplog.set_level(logging.INFO)
    async with contextlib.AsyncExitStack() as stack:
        first = await stack.enter_async_context(InProcessCluster(tmp_path))
        job = await first_run(first)
        before = endpoint_of(job.root)
        assert before.coordinators == (first.coordinator.address,)
        assert before.secret == first.coordinator.secret
        # The proxy is no part of either cluster.
        outside = await stack.enter_async_context(InProcessCluster(tmp_path / "x", servers=0))
        proxy = await outside.add_proxy(coordinators=(), secret="", endpoint=str(job.root))
        client = await stack.enter_async_context(
            client_of(proxy.address, direct=False, timeout_s=60)
        )
        direct = await stack.enter_async_context(client_of(proxy.address, timeout_s=60))
        assert await values(client) == await values(direct) == {1.0}

        await killed(first, job)
        assert endpoint_of(job.root) == before
        asked = [asyncio.ensure_future(values(each)) for each in (client, direct)]
        second = InProcessCluster(tmp_path, engine=first.coordinator.engine)
        await stack.enter_async_context(second)
        # The driver is found before it knows its jobs.
        second.coordinator.coordinator.publish_endpoint(str(job.root), {})
        found = f"the coordinator answers at {second.coordinator.address}"
        await eventually(lambda: found in caplog.text)
        done, _ = await asyncio.wait(asked, timeout=0.5)
        assert not done
        await next_run(second, job, 2.0)
        after = endpoint_of(job.root)
        assert after.secret == second.coordinator.secret != before.secret
        for each in asked:
            assert await each <= {1.0, 2.0}
        assert await values(client) == await values(direct) == {2.0}
        assert len(await client.list_jobs()) == 1


async def test_a_job_of_another_driver_replaces_that_of_the_same_name(tmp_path: Path) -> None:
    """With its own id: nobody waits for the job that the driver before has had."""
    async with contextlib.AsyncExitStack() as stack:
        first = await stack.enter_async_context(InProcessCluster(tmp_path / "first"))
        old = await first_run(first)
        outside = await stack.enter_async_context(InProcessCluster(tmp_path / "x", servers=0))
        proxy = await outside.add_proxy(coordinators=(), secret="", endpoint=str(old.root))
        client = await stack.enter_async_context(client_of(proxy.address, direct=False))
        assert await values(client) == {1.0}

        await killed(first, old)
        second = await stack.enter_async_context(InProcessCluster(tmp_path / "second"))
        new = second.job("sensors", declare("last", "string", "double"))
        await new.run(0, {"last": dict.fromkeys(KEYS, 2.0)})
        second.coordinator.coordinator.publish_endpoint(str(old.root), {})
        assert await values(client) == {2.0}


async def test_an_orderly_end_removes_the_file_unless_a_later_driver_wrote_it(
    tmp_path: Path,
) -> None:
    async with InProcessCluster(tmp_path) as cluster:
        job = await first_run(cluster)
        assert (job.root / "_endpoint").exists()
        cluster.coordinator.coordinator.publish_endpoint(str(tmp_path / "all"), {})
        cluster.coordinator.coordinator.publish_endpoint(str(tmp_path / "other"), {})
        ours = endpoint_of(tmp_path / "all")
        theirs = Endpoint(application="later", coordinators=("a:1",), secret="s")
        (tmp_path / "other" / "_endpoint").write_bytes(theirs.to_json())
    assert not (job.root / "_endpoint").exists()
    assert not (tmp_path / "all" / "_endpoint").exists()
    assert endpoint_of(tmp_path / "other") == theirs
    assert ours.secret not in repr(ours)


async def test_only_this_user_can_read_the_file(tmp_path: Path) -> None:
    async with InProcessCluster(tmp_path) as cluster:
        job = await first_run(cluster)
        file = job.root / "_endpoint"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        # Whoever may write the folder may have made a file with another mode there.
        file.chmod(0o666)
        cluster.coordinator.coordinator.publish_endpoint(str(job.root), {})
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert [path.name for path in job.root.iterdir() if path.name.startswith(".")] == []


async def test_a_job_in_memory_and_a_driver_that_may_not_write_have_no_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with InProcessCluster(tmp_path) as cluster:
        coordinator = cluster.coordinator.coordinator
        coordinator.publish_endpoint("driver:/root", {})
        assert coordinator.objects.list("driver:") == []
        (tmp_path / "file").write_text("")
        coordinator.publish_endpoint(str(tmp_path / "file"), {})
        coordinator.publish_endpoint("s4://bucket", {})
    assert "proxies started with --endpoint" in caplog.text
    assert "the scheme 's4'" in caplog.text


async def test_a_file_in_an_object_store_is_followed_too(tmp_path: Path) -> None:
    uri = f"memory://endpoints/{os.getpid()}"
    async with InProcessCluster(tmp_path) as cluster:
        await first_run(cluster)
        cluster.coordinator.coordinator.publish_endpoint(uri, {})
        for form in (uri, f"{uri}/", f"{uri}/_endpoint"):
            proxy = await cluster.add_proxy(coordinators=(), secret="", endpoint=form)
            async with client_of(proxy.address) as client:
                assert await values(client) == {1.0}
    with pytest.raises(MissingFileError, match="does not exist: the driver writes it"):
        read_endpoint(uri, storage_of(uri))


async def test_a_proxy_may_start_before_its_driver(tmp_path: Path) -> None:
    """It listens at once, and answers when the driver is there."""
    async with InProcessCluster(tmp_path, servers=0) as outside:
        root = tmp_path / "jobs" / "sensors.queryable-state"
        with pytest.raises(MissingFileError, match=f"{root}/_endpoint does not exist"):
            await outside.add_proxy(coordinators=(), secret="", endpoint=str(root))
        proxy = await outside.add_proxy(
            coordinators=(), secret="", endpoint=str(root), wait_for_driver=True
        )
        async with client_of(proxy.address, timeout_s=0.5) as client:
            with pytest.raises(RetryLaterError, match="the job's driver does not answer"):
                await client.list_jobs()
        async with client_of(proxy.address) as client:
            listing = asyncio.ensure_future(client.list_jobs())
            async with InProcessCluster(tmp_path) as cluster:
                await first_run(cluster)
                assert len(await listing) == 1
                assert await values(client) == {1.0}


async def test_a_proxy_takes_the_first_of_its_coordinators_that_answers(tmp_path: Path) -> None:
    async with InProcessCluster(tmp_path) as cluster:
        await first_run(cluster)
        host, _, port = cluster.coordinator.address.rpartition(":")
        proxy = await cluster.add_proxy(coordinators=("127.0.0.1:1", f"localhost:{port}"))
        async with client_of(proxy.address) as client:
            assert await values(client) == {1.0}
        assert host == "127.0.0.1"


async def test_fixed_addresses_count_before_those_of_the_file(tmp_path: Path) -> None:
    """The driver is known by other addresses in another network; the secret is the file's."""
    async with InProcessCluster(tmp_path) as cluster:
        job = await first_run(cluster)
        file = job.root / "_endpoint"
        endpoint = endpoint_of(job.root)
        moved = Endpoint(application="x", coordinators=("127.0.0.1:1",), secret=endpoint.secret)
        file.write_bytes(moved.to_json())
        proxy = await cluster.add_proxy(
            coordinators=(cluster.coordinator.address,), secret="old", endpoint=str(file)
        )
        async with client_of(proxy.address) as client:
            assert await values(client) == {1.0}


async def test_what_cannot_work_is_said_at_once(tmp_path: Path) -> None:
    async with InProcessCluster(tmp_path) as cluster:
        began = time.monotonic()
        with pytest.raises(RetryLaterError, match=r"no coordinator answers at 127\.0\.0\.1:1 "):
            await cluster.add_proxy(coordinators=("127.0.0.1:1",))
        with pytest.raises(AuthenticationError):
            await cluster.add_proxy(secret="another")
        with pytest.raises(InvalidRequestError, match="--coordinator or --endpoint"):
            await cluster.add_proxy(coordinators=())
        public = cluster.servers[0].addresses
        for address in (public.proxy, public.query):
            with pytest.raises(InvalidRequestError, match=r"is no coordinator.*6123"):
                await cluster.add_proxy(coordinators=(address,))
        assert time.monotonic() - began < DEADLINE_S / 2


async def test_health_follows_the_driver(tmp_path: Path) -> None:
    """NOT_SERVING while there is none, SERVING when the next one is found."""
    async with contextlib.AsyncExitStack() as stack:
        outside = await stack.enter_async_context(InProcessCluster(tmp_path / "x", servers=0))
        first = await stack.enter_async_context(InProcessCluster(tmp_path))
        job = await first_run(first)
        proxy = await outside.add_proxy(coordinators=(), secret="", endpoint=str(job.root))
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(proxy.address))

        async def becomes(status: int) -> None:
            stub: Any = health_pb2_grpc.HealthStub(channel)
            watching = stub.Watch(health_pb2.HealthCheckRequest())
            async with asyncio.timeout(DEADLINE_S):
                async for seen in watching:
                    if seen.status == status:
                        break
            watching.cancel()

        await becomes(health_pb2.HealthCheckResponse.SERVING)
        await killed(first, job)
        await becomes(health_pb2.HealthCheckResponse.NOT_SERVING)
        second = InProcessCluster(tmp_path, engine=first.coordinator.engine)
        await stack.enter_async_context(second)
        await next_run(second, job, 2.0)
        await becomes(health_pb2.HealthCheckResponse.SERVING)


async def test_commands_find_the_driver_by_its_endpoint_file(tmp_path: Path) -> None:
    """A proxy and a savepoint, as processes without address and secret."""
    async with InProcessCluster(tmp_path) as cluster:
        job = await first_run(cluster)
        await job.run(1, {"last": {}})
        environment = {name: value for name, value in os.environ.items() if name != SECRET_VARIABLE}
        command = (sys.executable, "-m", "queryable_state.cli")
        proxy = await asyncio.create_subprocess_exec(
            *(*command, "proxy", "--endpoint", str(job.root), "--port", "0", "--frame-port", "0"),
            stdout=asyncio.subprocess.PIPE,
            env=environment,
        )
        try:
            assert proxy.stdout is not None
            async with asyncio.timeout(DEADLINE_S):
                line = (await proxy.stdout.readline()).decode()
            async with client_of(line.removeprefix("proxy at ").strip()) as client:
                assert await values(client) == {1.0}
            savepoint = await asyncio.create_subprocess_exec(
                *(*command, "savepoint", "sensors", str(tmp_path / "savepoints")),
                *("--endpoint", str(job.root / "_endpoint")),
                stdout=asyncio.subprocess.PIPE,
                env=environment,
            )
            async with asyncio.timeout(DEADLINE_S):
                output, _ = await savepoint.communicate()
            assert savepoint.returncode == 0
            assert output.decode().startswith(str(tmp_path / "savepoints"))
        finally:
            proxy.kill()
            await proxy.wait()
