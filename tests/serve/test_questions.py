"""Every kind of question to a checkpoint of a job that does not run."""

from __future__ import annotations

import time
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest
from tests.query.streams import VALUES as DOUBLES
from tests.query.streams import RawStream, wire_keys

from queryable_state.server.checkpoint.completed import find
from queryable_state.server.checkpoint.storage import storage_of
from queryable_state.server.checkpoint_server.engine import CheckpointEngine
from queryable_state.server.checkpoint_server.loading import CheckpointLoader
from queryable_state.server.checkpoint_server.settings import CheckpointServerSettings
from queryable_state.server.query.scan_query import ScanQuery
from queryable_state.server.settings import Limits
from queryable_state.server.state_server.bulk_thread import BulkThread
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import InvalidRequestError, Reason, VersionGoneError
from queryable_state.wire.key_codec import KeyCodec
from queryable_state.wire.types import Types
from queryable_state.wire.values import ValueCodec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.serve.conftest import Ended

    from queryable_state.server.checkpoint_server.server import CheckpointServer

LONGS = ValueCodec.of(Types.LONG())


def state_id_of(ended: Ended, name: str) -> int:
    found = find(str(ended.newest), storage_of(str(ended.newest)))
    return next(
        state.state_id
        for operator in found.completed[0].metadata.operators
        for state in operator.states
        if state.queryable_name == name
    )


@pytest.fixture
async def engine(ended: Ended, tmp_path: Path) -> AsyncIterator[CheckpointEngine]:
    """What answers inside a server of the newer checkpoint."""
    uri = str(ended.newest)
    storage = storage_of(uri)
    [completed, *_] = find(uri, storage).completed
    settings = CheckpointServerSettings(checkpoint=uri)
    loader = CheckpointLoader(settings, storage, tmp_path / "loaded", "checkpoint")
    bulk = BulkThread()
    table = await loader.load(completed)
    yield CheckpointEngine(table, completed, Limits(), bulk, server_id="checkpoint")
    await bulk.aclose()
    await loader.aclose()


@pytest.fixture
async def stream(server: CheckpointServer) -> AsyncIterator[RawStream]:
    async with grpc.aio.insecure_channel(server.address) as channel, RawStream(channel) as opened:
        yield opened


async def test_entries_existence_and_sizes(stream: RawStream, ended: Ended) -> None:
    asked: dict[str, Any] = {"keys": wire_keys("sensor_1", "absent")}
    counts = asked | {"state_id": state_id_of(ended, "counts")}
    element = KeyCodec(Types.STRING()).encode("y")
    [entry] = await stream.ask(read=query_pb2.ENTRY, elements=[element], **counts)
    assert [LONGS.decode(value) for value in entry.values] == [2]
    assert entry.info.role == query_pb2.CHECKPOINT
    for name, elements in (("counts", 2), ("seen", 2), ("last", 1)):
        state = asked | {"state_id": state_id_of(ended, name)}
        [size] = await stream.ask(read=query_pb2.SIZE, **state)
        assert query_pb2.Size.FromString(size.values[0]).elements == elements
        [exists] = await stream.ask(read=query_pb2.EXISTS, **state)
        assert (list(exists.values), list(exists.missing)) == ([b""], [1])


async def test_only_its_own_batch_is_there(stream: RawStream, ended: Ended) -> None:
    asked: dict[str, Any] = {
        "state_id": state_id_of(ended, "last"),
        "keys": wire_keys("sensor_1"),
    }
    [there] = await stream.ask(at_version=1, **asked)
    assert [DOUBLES.decode(value) for value in there.values] == [71.5]
    [older] = await stream.ask(at_version=0, **asked)
    assert older.error.reason == Reason.VERSION_GONE
    [newer] = await stream.ask(at_version=2, **asked)
    assert newer.error.reason == Reason.INVALID_REQUEST
    [both] = await stream.ask(at_version=1, min_version=2, **asked)
    assert both.error.reason == Reason.INVALID_REQUEST


async def test_its_states_can_be_scanned(engine: CheckpointEngine, ended: Ended) -> None:
    query = ScanQuery(
        state_id=state_id_of(ended, "last"), first_key_group=0, last_key_group=127, at_version=1
    )
    async with aclosing(engine.scan(query)) as scan:
        messages = [message async for message in scan]
    assert sum(len(message.keys) for message in messages) == 200
    assert messages[-1].complete
    assert messages[0].info.checkpoint == str(ended.newest)


async def test_a_scan_of_another_batch_is_refused(engine: CheckpointEngine, ended: Ended) -> None:
    for at_version, refused in ((0, VersionGoneError), (2, InvalidRequestError)):
        query = ScanQuery(
            state_id=state_id_of(ended, "last"),
            first_key_group=0,
            last_key_group=127,
            at_version=at_version,
        )
        with pytest.raises(refused):
            async with aclosing(engine.scan(query)) as scan:
                await anext(scan)


async def test_its_states_can_be_measured(engine: CheckpointEngine, ended: Ended) -> None:
    parts = await engine.measure(state_id_of(ended, "last"))
    assert [(part.first_key_group, part.last_key_group) for part in parts] == [(0, 63), (64, 127)]
    assert all(part.records for part in parts)


async def test_its_answers_can_be_explained(engine: CheckpointEngine, ended: Ended) -> None:
    query = query_pb2.Query(state_id=state_id_of(ended, "last"), keys=wire_keys("sensor_1"))
    explained = await engine.explain(query, time.perf_counter_ns())
    [step] = explained.explanation.steps
    assert (step.name, step.role) == ("read", query_pb2.CHECKPOINT)
    query.min_version = 2
    refused = await engine.explain(query, time.perf_counter_ns())
    assert refused.answers[0].error.reason == Reason.INVALID_REQUEST
