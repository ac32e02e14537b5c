"""The same client, the same answers, from a checkpoint of a job that does not run."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from queryable_state.client import QueryableStateClient, Role
from queryable_state.client.blocking import QueryableStateClient as BlockingClient
from queryable_state.server.checkpoint.file_systems.storage import join
from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.server.testing.cluster import corrupt
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import (
    CheckpointError,
    CorruptDataError,
    Reason,
    UnknownJobError,
    UnknownKeyOrNamespaceError,
    UnknownStateError,
)
from queryable_state.wire.keys.key_groups import KeyGroups
from queryable_state.wire.schema.types import Types

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.grpcurl.conftest import Grpcurl
    from tests.serve.conftest import Ended

    from queryable_state.server.checkpoint_server.server import CheckpointServer
    from queryable_state.v1.query_pb2_grpc import QueryableStateAsyncStub as Stub

    Serve = Callable[..., CheckpointServer]


async def test_every_kind_of_state_is_answered_as_of_the_checkpoint(
    client: QueryableStateClient, ended: Ended
) -> None:
    last = await client.get_kv_state("sensors", "last", "sensor_1")
    assert last.value() == 71.5
    assert list((await client.get_kv_state(ended.job_id, "seen", "sensor_1")).get()) == ["a", "b"]
    counts = await client.get_kv_state("sensors", "counts", "sensor_1")
    assert dict(counts.items()) == {"x": 1, "y": 2}

    assert last.info.version == 1
    assert last.info.role == Role.CHECKPOINT
    assert last.info.checkpoint == str(ended.newest)
    assert last.info.commit_time_ms > 0
    assert repr(last) == f"<ValueState at batch 1 of {ended.newest}: 71.5>"


async def test_every_key_is_there(client: QueryableStateClient) -> None:
    keys = [f"sensor_{number}" for number in range(210)]
    values = await client.get_kv_states("sensors", "last", keys)
    assert [None if each is None else each.value() for each in values] == [
        0.0,
        71.5,
        *(float(number) for number in range(2, 200)),
        *[None] * 10,
    ]
    with pytest.raises(UnknownKeyOrNamespaceError):
        await client.get_kv_state("sensors", "last", "sensor_200")


async def test_its_job_and_states_are_listed(client: QueryableStateClient, ended: Ended) -> None:
    [job] = await client.list_jobs()
    assert (job.job_id, job.name, job.status) == (ended.job_id, "sensors", "FINISHED")
    assert job.committed_batch == 1
    assert job.states == ("counts", "last", "seen")
    assert [state.state_name for state in await client.list_states("sensors")] == [
        "counts",
        "last",
        "seen",
    ]


async def test_what_it_has_not_is_named(client: QueryableStateClient) -> None:
    with pytest.raises(UnknownJobError, match=r"no job 'others': .*chk-[0-9]+ is of sensors"):
        await client.get_kv_state("others", "last", "sensor_1")
    with pytest.raises(
        UnknownStateError, match=r"no queryable state 'first' .*it has counts, last"
    ):
        await client.get_kv_state("sensors", "first", "sensor_1")


async def test_newer_than_the_checkpoint_is_refused_for_good(
    server: CheckpointServer, stub: Stub
) -> None:
    """Not as behind, which clients ask again until their time is over."""

    async def ask(*, version: int = 0, staleness_ms: int = 0) -> query_pb2.Answer:
        request = query_pb2.BatchGetKvStateRequest(
            state_name="last",
            keys=[b"\x00\x00x\x00\x01"],
            min_version=version,
            max_staleness_ms=staleness_ms,
        )
        return (await stub.BatchGetKvState(request)).answers[0]

    assert (await ask(version=1)).info.version == 1
    assert (await ask(staleness_ms=10**12)).info.version == 1
    for answer, text in (
        (await ask(version=2), "needs batch 2 or later, but "),
        (await ask(staleness_ms=1), "a staleness of 1 ms, but "),
    ):
        assert answer.error.reason == Reason.INVALID_REQUEST
        assert text in answer.error.message


async def test_a_part_of_a_key_reads_nothing(stub: Stub) -> None:
    whole = KeyGroups(Types.STRING()).wire_key("sensor_1")
    for key in (whole[:2], whole[:5], whole[:-1], whole + b"\x00"):
        for state, read in (("seen", "PREFIX"), ("seen", "SLICE"), ("counts", "SIZE")):
            request = query_pb2.BatchGetKvStateRequest(
                state_name=state, keys=[key], read=query_pb2.ReadKind.Value(read)
            )
            [answer] = (await stub.BatchGetKvState(request)).answers
            assert answer.error.reason == Reason.INVALID_REQUEST
            assert not answer.values


async def test_a_savepoint_is_served_wherever_it_was_moved(
    ended: Ended, serving: Serve, tmp_path: Path
) -> None:
    moved = tmp_path / "archive" / "one"
    shutil.copytree(ended.savepoint, moved)
    shutil.rmtree(ended.savepoint)
    shutil.rmtree(ended.root)
    async with serving(moved) as server:
        host, _, port = server.address.rpartition(":")
        async with QueryableStateClient(host, int(port), timeout_s=20.0) as client:
            state = await client.get_kv_state("sensors", "last", "sensor_1")
            assert (state.value(), state.info.checkpoint) == (71.5, str(moved))


@pytest.mark.parametrize("here", ["heap", "rocksdb"])
async def test_the_files_are_not_needed_while_it_serves(
    ended: Ended, serving: Serve, here: str, tmp_path: Path
) -> None:
    async with serving(ended.newest, backend=here) as server:
        shutil.rmtree(ended.root)
        assert await _last(server, "sensor_7") == 7.0
    assert list((tmp_path / "served").iterdir()) == []


async def test_a_root_is_served_by_its_newest_intact_checkpoint(
    ended: Ended, serving: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(ended.root) as server:
        assert server.completed.uri == str(ended.newest)
    (ended.newest / "_metadata").write_bytes(b"garbage")
    async with serving(ended.root) as server:
        assert server.completed.uri == str(ended.older)
        assert await _last(server, "sensor_1") == 1.0
    assert f"{ended.newest} cannot be served" in caplog.text


async def test_a_damaged_file_is_named(ended: Ended, serving: Serve) -> None:
    """Files beyond the inlined ones: of the checkpoint alone, or shared."""
    damaged = max(
        (path for path in ended.savepoint.rglob("state")), key=lambda path: path.stat().st_size
    )
    corrupt(damaged)
    with pytest.raises(CheckpointError, match=f"is damaged: {damaged}"):
        await serving(ended.savepoint).__aenter__()
    damaged.unlink()
    with pytest.raises(CheckpointError, match=str(damaged)):
        await serving(ended.savepoint).__aenter__()


async def test_what_is_no_checkpoint_is_refused(
    ended: Ended, serving: Serve, tmp_path: Path
) -> None:
    (tmp_path / "empty" / "folder").mkdir(parents=True)
    for uri, text in (
        (tmp_path / "none", "there is nothing at"),
        (tmp_path / "empty", "no completed checkpoint or savepoint"),
        (ended.root.parent, "is a directory of .*sensors.queryable-state: name one"),
        (ended.savepoint.parent, f"is a directory of {ended.savepoint.name}: name one"),
        (ended.root / "chk-99", "there is nothing at"),
    ):
        with pytest.raises(CheckpointError, match=text):
            await serving(uri).__aenter__()
    shutil.copytree(ended.newest, tmp_path / "copied")
    with pytest.raises(CorruptDataError, match="only savepoints may be moved"):
        await serving(tmp_path / "copied").__aenter__()


async def test_a_server_may_be_stopped_while_it_loads(
    ended: Ended, serving: Serve, tmp_path: Path
) -> None:
    server = serving(ended.newest)
    entering = asyncio.create_task(server.__aenter__())
    while not any((tmp_path / "served").glob("*/0")):  # noqa: ASYNC110
        await asyncio.sleep(0)
    await server.aclose()
    with pytest.raises(CheckpointError, match=r"stopped before .* was loaded"):
        await entering
    assert list((tmp_path / "served").iterdir()) == []


async def test_the_whole_service_is_there(
    server: CheckpointServer, stub: Stub, ended: Ended
) -> None:
    """As any client of the protos sees it: unary calls, and every key group with one owner."""
    shown = await stub.GetKvState(
        query_pb2.GetKvStateRequest(state_name="last", key_json='"sensor_1"')
    )
    assert shown.value_json == "71.5"
    assert shown.info.checkpoint == str(ended.newest)
    located = await stub.LocateState(query_pb2.LocateStateRequest(job="sensors", state_name="last"))
    [owner] = located.location.owners
    assert (owner.first_key_group, owner.last_key_group) == (0, 127)
    assert owner.address == server.address
    jobs = await stub.ListJobs(query_pb2.ListJobsRequest())
    assert jobs.jobs[0].status == registration_pb2.FINISHED


async def test_the_blocking_client_reads_it_too(server: CheckpointServer) -> None:
    host, _, port = server.address.rpartition(":")

    def ask() -> float:
        with BlockingClient(host, int(port), timeout_s=20.0) as client:
            value: float = client.get_kv_state("sensors", "last", "sensor_1").value()
            return value

    assert await asyncio.to_thread(ask) == 71.5


async def test_a_savepoint_on_s3_is_served(
    ended: Ended, serving: Serve, s3_options: dict[str, Any]
) -> None:
    uri = f"s3a://states/{ended.job_id}/savepoint"
    storage = storage_of(uri, s3_options)
    for path in ended.savepoint.rglob("*"):
        if path.is_file():
            target = join(uri, path.relative_to(ended.savepoint).as_posix())
            await asyncio.to_thread(storage.upload, path, target)
    async with serving(uri, storage_options=s3_options) as server:
        assert await _last(server, "sensor_1") == 71.5


@pytest.mark.grpcurl
async def test_a_person_sees_the_checkpoint_with_grpcurl(
    grpcurl: Grpcurl, server: CheckpointServer, ended: Ended
) -> None:
    shown = await grpcurl.ask(
        server.address, "GetKvState", state_name="counts", key_json='"sensor_1"'
    )
    assert shown.json["value_json"] == '{"x": 1, "y": 2}'
    assert shown.json["info"]["role"] == "CHECKPOINT"
    assert shown.json["info"]["checkpoint"] == str(ended.newest)
    listed = await grpcurl(server.address, "list")
    assert "queryable_state.v1.QueryableState" in listed.output.split()


async def _last(server: CheckpointServer, key: str) -> float:
    host, _, port = server.address.rpartition(":")
    async with QueryableStateClient(host, int(port), timeout_s=20.0) as client:
        value: float = (await client.get_kv_state("sensors", "last", key)).value()
        return value
