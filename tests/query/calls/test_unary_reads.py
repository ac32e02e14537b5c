"""The other kinds of question in unary calls, in JSON and encoded."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest
from tests.query.streams import keys_of_server, wire_keys
from tests.waiting import DEADLINE_S

from queryable_state.server.testing.changes import NULL
from queryable_state.server.testing.cluster import declare
from queryable_state.v1 import query_pb2, query_pb2_grpc, registration_pb2
from queryable_state.wire.errors import (
    InvalidRequestError,
    KeyTypeError,
    QueryableStateError,
    Reason,
    UnknownKeyOrNamespaceError,
)
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.schema.types import Types
from queryable_state.wire.status import error_from_call

if TYPE_CHECKING:
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob

ENTRY, EXISTS, SIZE = query_pb2.ENTRY, query_pb2.EXISTS, query_pb2.SIZE
A = KeyCodec(Types.STRING()).encode("a")


@pytest.fixture(params=[False, True], ids=["grpc core", "grpc.aio"])
def plain_grpc(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
async def counts(cluster: InProcessCluster) -> InProcessJob:
    started = cluster.job(
        "counts",
        declare("by_word", "string", "bigint", kind=registration_pb2.MAP, map_key_type="string"),
    )
    await started.run(0, {"by_word": {f"sensor_{n}": {"a": n, "b": 2} for n in range(100)}})
    return started


async def _call(channel: grpc.aio.Channel, name: str, request: Any) -> Any:
    try:
        return await getattr(query_pb2_grpc.QueryableStateStub(channel), name)(request, timeout=10)
    except grpc.aio.AioRpcError as failure:
        raise error_from_call(failure, "server") from None


async def _get(channel: grpc.aio.Channel, **fields: Any) -> query_pb2.GetKvStateResponse:
    given = {"state_name": "by_word"} | fields
    return await _call(  # type: ignore[no-any-return]
        channel, "GetKvState", query_pb2.GetKvStateRequest(**given)
    )


async def _batch(channel: grpc.aio.Channel, **fields: Any) -> query_pb2.BatchGetKvStateResponse:
    given = {"state_name": "last"} | fields
    return await _call(  # type: ignore[no-any-return]
        channel, "BatchGetKvState", query_pb2.BatchGetKvStateRequest(**given)
    )


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"read": ENTRY, "map_key_json": '"a"'}, "7"),
        ({"read": ENTRY, "element": A}, "7"),
        ({"read": EXISTS}, "true"),
        ({"read": EXISTS, "map_key_json": '"a"'}, "true"),
        ({"read": EXISTS, "map_key_json": '"c"'}, "false"),
        ({"read": EXISTS, "key_json": '"nobody"'}, "false"),
        ({"read": query_pb2.PREFIX}, '{"a": 7, "b": 2}'),
    ],
)
async def test_json_has_the_requested_part(
    channel: grpc.aio.Channel, counts: InProcessJob, fields: dict[str, Any], text: str
) -> None:
    response = await _get(channel, **({"key_json": '"sensor_7"'} | fields))
    assert response.value_json == text
    assert response.info.version == 0
    assert not response.HasField("records")


async def test_json_shows_a_null_entry_as_null(
    channel: grpc.aio.Channel, counts: InProcessJob
) -> None:
    await counts.run(1, {"by_word": {"nulls": {"a": NULL}}})
    for fields, text in (
        ({"read": ENTRY, "map_key_json": '"a"'}, "null"),
        ({"read": EXISTS, "map_key_json": '"a"'}, "true"),
        ({"read": query_pb2.PREFIX}, '{"a": null}'),
    ):
        response = await _get(channel, key_json='"nulls"', min_version=1, **fields)
        assert response.value_json == text


async def test_a_size_is_elements_and_bytes(
    channel: grpc.aio.Channel, counts: InProcessJob, job: InProcessJob
) -> None:
    for state, elements in (("by_word", 2), ("seen", 2), ("last", 1)):
        response = await _get(channel, state_name=state, key_json='"sensor_1"', read=SIZE)
        size = json.loads(response.value_json)
        assert size["elements"] == elements
        assert size["value_bytes"] > 0
    with pytest.raises(UnknownKeyOrNamespaceError):
        await _get(channel, key_json='"nobody"', read=SIZE)


async def test_an_encoded_key_gets_records_of_every_kind(
    channel: grpc.aio.Channel, counts: InProcessJob
) -> None:
    [key] = wire_keys("sensor_7")
    entry = (await _get(channel, encoded_key=key, read=ENTRY, element=A)).records
    assert list(entry.elements) == [b""]
    whole = (await _get(channel, encoded_key=key)).records
    assert dict(zip(whole.elements, whole.values, strict=True))[A] == entry.values[0]
    there = await _get(channel, encoded_key=key, read=EXISTS)
    assert list(there.records.values) == [b""]
    [nobody] = wire_keys("nobody")
    nothing = await _get(channel, encoded_key=nobody, read=EXISTS)
    assert nothing.HasField("records")
    assert list(nothing.records.values) == []
    size = await _get(channel, encoded_key=key, read=SIZE)
    assert query_pb2.Size.FromString(size.records.values[0]).elements == 2


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        ({"read": ENTRY}, InvalidRequestError, "wants the map key"),
        ({"map_key_json": '"a"'}, InvalidRequestError, "for ENTRY and EXISTS, not for POINT"),
        ({"read": SIZE, "element": A}, InvalidRequestError, "not for SIZE"),
        ({"read": ENTRY, "map_key_json": "7"}, KeyTypeError, "string"),
        ({"read": ENTRY, "map_key_json": '"c"'}, UnknownKeyOrNamespaceError, 'map key "c" of key'),
        ({"read": 17}, InvalidRequestError, "read kind 17"),
        ({"consistency": 7}, InvalidRequestError, "consistency 7"),
    ],
)
async def test_what_makes_no_sense_is_refused(
    channel: grpc.aio.Channel,
    counts: InProcessJob,
    fields: dict[str, Any],
    error: type[Exception],
    text: str,
) -> None:
    with pytest.raises(error, match=text):
        await _get(channel, key_json='"sensor_7"', **fields)


async def test_only_maps_have_entries(channel: grpc.aio.Channel, job: InProcessJob) -> None:
    for fields in ({"map_key_json": '"a"'}, {"element": A}):
        with pytest.raises(QueryableStateError, match="VALUE: only a MAP or BROADCAST") as refused:
            await _get(channel, state_name="last", key_json='"sensor_7"', read=ENTRY, **fields)
        assert refused.value.reason == Reason.UNSUPPORTED


async def test_keys_in_json_have_results_in_their_order(
    channel: grpc.aio.Channel, cluster: InProcessCluster, job: InProcessJob
) -> None:
    asked = ["sensor_3", "nobody", *keys_of_server(cluster, 1)[:2], *keys_of_server(cluster, 0)[:2]]
    response = await _batch(channel, keys_json=[json.dumps(key) for key in asked])
    assert not response.answers
    found = [result.value_json for result in response.results]
    assert found == ["" if key == "nobody" else f"{key[7:]}.0" for key in asked]
    assert response.results[1].error.reason == Reason.UNKNOWN_KEY
    assert '"nobody"' in response.results[1].error.message
    assert {result.info.server_id for result in response.results} == {
        server.server_id for server in cluster.servers
    }


async def test_a_server_says_of_each_key_in_json_that_it_is_another_ones(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    own, others = keys_of_server(cluster, 0)[0], keys_of_server(cluster, 1)[0]
    async with grpc.aio.insecure_channel(cluster.servers[0].addresses.query) as channel:
        response = await _batch(channel, keys_json=[json.dumps(key) for key in (own, others)])
    assert response.results[0].value_json == f"{own[7:]}.0"
    assert response.results[1].error.reason == Reason.NOT_OWNER


async def test_many_keys_are_read_for_entries_existence_and_size(
    channel: grpc.aio.Channel, counts: InProcessJob
) -> None:
    def results(response: query_pb2.BatchGetKvStateResponse) -> list[str]:
        return [result.value_json for result in response.results]

    keys = {"state_name": "by_word", "keys_json": ['"sensor_1"', '"sensor_2"', '"nobody"']}
    one = await _batch(channel, read=ENTRY, elements=[A], **keys)
    assert results(one) == ["1", "2", ""]
    b = KeyCodec(Types.STRING()).encode("b")
    each = await _batch(channel, read=ENTRY, elements=[A, b, b], **keys)
    assert results(each) == ["1", "2", ""]
    there = await _batch(channel, read=EXISTS, **keys)
    assert results(there) == ["true", "true", "false"]
    assert not any(result.HasField("error") for result in there.results)
    sizes = await _batch(channel, read=SIZE, **keys)
    assert [json.loads(text)["elements"] for text in results(sizes)[:2]] == [2, 2]
    with pytest.raises(InvalidRequestError, match="2 elements for 3 keys"):
        await _batch(channel, read=ENTRY, elements=[A, b], **keys)


async def test_keys_are_encoded_or_json(channel: grpc.aio.Channel, job: InProcessJob) -> None:
    with pytest.raises(InvalidRequestError, match="not both"):
        await _batch(channel, keys=wire_keys("a"), keys_json=['"a"'])
    with pytest.raises(InvalidRequestError, match="at least one"):
        await _batch(channel)
    with pytest.raises(KeyTypeError):
        await _batch(channel, keys_json=['"a"', "7"])


async def test_calls_that_wait_for_a_batch_hold_up_no_others(
    channel: grpc.aio.Channel, cluster: InProcessCluster, job: InProcessJob
) -> None:
    """As many as one stream to their owner takes, and more."""
    stores = cluster.servers[0].table.job(job.query_id)
    assert stores is not None
    key = min(keys_of_server(cluster, 0))
    fields = {"state_name": "last", "key_json": json.dumps(key)}
    waiting = [asyncio.ensure_future(_get(channel, min_version=1, **fields)) for _ in range(100)]
    async with asyncio.timeout(DEADLINE_S):
        while len(stores.waiting) < 64:  # noqa: ASYNC110 - of many calls
            await asyncio.sleep(0.005)
    assert (await _get(channel, **fields)).info.version == 0
    await job.run(1, {"last": {key: 1.0}})
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    refused = [each for each in answers if isinstance(each, QueryableStateError)]
    assert {each.reason for each in refused} <= {Reason.OVERLOADED}
    assert len(answers) - len(refused) >= 64


async def test_many_keys_are_answered_as_of_an_exact_batch(
    channel: grpc.aio.Channel, job: InProcessJob
) -> None:
    """Also in JSON; a batch that is not there is refused as over frames."""
    await job.run(1, {"last": {"sensor_1": -1.0}})
    keys = ['"sensor_1"', '"sensor_2"']
    for batch, values in ((0, ["1.0", "2.0"]), (1, ["-1.0", "2.0"])):
        response = await _batch(channel, keys_json=keys, at_version=batch)
        assert [result.value_json for result in response.results] == values
        assert {result.info.version for result in response.results} == {batch}
    [encoded] = wire_keys("sensor_1")
    [answer] = (await _batch(channel, keys=[encoded], at_version=0)).answers
    assert answer.info.version == 0
    for batch in range(2, 6):
        await job.run(batch, {"last": {}})
    gone = await _batch(channel, keys_json=keys, at_version=0)
    assert {result.error.reason for result in gone.results} == {Reason.VERSION_GONE}
