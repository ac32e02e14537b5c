"""Limits of requests: held before any work that grows with what was sent."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryable_state.server.query.admission import check_fields
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import (
    InvalidRequestError,
    KeyTypeError,
    LimitExceededError,
    QueryableStateError,
)
from queryable_state.wire.status import error_from_call

if TYPE_CHECKING:
    from queryable_state.server.testing.cluster import InProcessJob

SERVICE = "/queryable_state.v1.QueryableState"
NAMED = {"job": "sensors", "state_name": "last"}


def batch_of(**fields: Any) -> query_pb2.BatchGetKvStateRequest:
    return query_pb2.BatchGetKvStateRequest(**fields)


def get_of(**fields: Any) -> query_pb2.GetKvStateRequest:
    return query_pb2.GetKvStateRequest(**fields)


def scan_of(**fields: Any) -> query_pb2.ScanKvStateRequest:
    return query_pb2.ScanKvStateRequest(**fields)


async def refusal_of(channel: grpc.aio.Channel, method: str, request: bytes) -> QueryableStateError:
    call: Any = channel.unary_unary(f"{SERVICE}/{method}")
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call(request, timeout=20)
    assert raised.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    return error_from_call(raised.value, "server")


@pytest.mark.parametrize(
    ("method", "request_", "kind", "text"),
    [
        ("BatchGetKvState", batch_of(keys_json=["1"] * 4097, **NAMED), LimitExceededError,
         "spark.queryable_state.batch_keys"),
        ("BatchGetKvState", batch_of(keys_json=['"' + "x" * 300_000 + '"'], **NAMED),
         LimitExceededError, "spark.queryable_state.key_json_bytes"),
        ("BatchGetKvState", batch_of(keys=[b"x" * 70_000], **NAMED), LimitExceededError,
         "spark.queryable_state.key_bytes"),
        ("BatchGetKvState", batch_of(keys=[b"\0\0k"], namespace=b"x" * 70_000, **NAMED),
         LimitExceededError, "spark.queryable_state.key_bytes"),
        ("GetKvState", get_of(key_json="[" * 200_000, **NAMED), InvalidRequestError, "is not JSON"),
        ("GetKvState", get_of(key_json="[1,[2]," + "3," * 90_000 + "4]", **NAMED), KeyTypeError,
         r"not as \[1, \[...\], 3, 3, 3, ...\]"),
        ("GetKvState", get_of(key_json='"' + "k" * 200_000 + '"', **NAMED), LimitExceededError,
         "spark.queryable_state.key_bytes"),
        ("GetKvState", get_of(key_json="1", job="x" * 2000), LimitExceededError,
         "the job has 2,000"),
        ("ListStates", query_pb2.ListStatesRequest(job="x" * 2000), LimitExceededError, "the job"),
        ("ScanKvState", scan_of(runs=[query_pb2.KeyGroupRun()] * 66, placement_version=1, **NAMED),
         LimitExceededError, "66 runs .* at most 65"),
        ("ScanKvState", scan_of(start_json='"' + "x" * 300_000 + '"', **NAMED), LimitExceededError,
         "key_json_bytes"),
        ("ScanKvState", scan_of(page_token=b"x" * 80_000, **NAMED), LimitExceededError,
         "key_bytes"),
    ],
)  # fmt: skip
async def test_what_is_over_a_limit_is_refused_by_its_setting(
    channel: grpc.aio.Channel, method: str, request_: Any, kind: type[Exception], text: str
) -> None:
    refusal = await refusal_of(channel, method, request_.SerializeToString())
    assert isinstance(refusal, kind)
    with pytest.raises(kind, match=text):
        raise refusal
    # What the client sent is not sent back.
    assert len(refusal.message) < 1000


@pytest.mark.parametrize(
    ("method", "request_"),
    [
        ("BatchGetKvState", b"\x4a\x00" * 1_500_000),
        ("BatchGetKvState", b"\x1a\x00" * 1_500_000),
        ("ScanKvState", b"\xb2\x01\x00" * 1_000_000),
        ("GetKvState", b"\xa0\x06\x01" * 1_000_000),
    ],
)
async def test_millions_of_empty_fields_are_refused_unread(
    channel: grpc.aio.Channel, method: str, request_: bytes
) -> None:
    refusal = await refusal_of(channel, method, request_)
    assert isinstance(refusal, LimitExceededError)
    assert "fields" in refusal.message


def test_counting_fields_costs_no_more_than_the_limit() -> None:
    request = b"\x4a\x00" * 20_000_000
    begun_s = time.thread_time()
    with pytest.raises(LimitExceededError):
        check_fields(request, 8000)
    assert time.thread_time() - begun_s < 0.05


@given(st.binary(max_size=200), st.integers(0, 3))
def test_any_bytes_are_counted_or_refused(data: bytes, within: int) -> None:
    try:
        check_fields(data, 5, within=within)
    except InvalidRequestError:
        pass


@pytest.mark.parametrize("request_", [b"\xff\xff\xff", b"\x0a\xff\xff\xff\xff\x0f", b"\x1a\x05k"])
async def test_what_cannot_be_parsed_is_an_invalid_request(
    channel: grpc.aio.Channel, request_: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(20):
        refusal = await refusal_of(channel, "GetKvState", request_)
        assert "this is not a GetKvStateRequest" in refusal.message
    assert not [record for record in caplog.records if record.exc_info]
    assert len([m for m in caplog.messages if "is refused" in m]) <= 1


async def test_a_batch_of_as_many_keys_as_allowed_is_answered(
    channel: grpc.aio.Channel, job: InProcessJob
) -> None:
    request = batch_of(keys_json=['"sensor_1"', '"nobody"'] * 2048, **NAMED)
    call: Any = channel.unary_unary(f"{SERVICE}/BatchGetKvState")
    answer = query_pb2.BatchGetKvStateResponse.FromString(
        await call(request.SerializeToString(), timeout=20)
    )
    assert [result.value_json for result in answer.results[:2]] == ["1.0", ""]
    assert len(answer.results) == 4096
