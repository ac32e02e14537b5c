"""Calls of all kinds, as `grpc.aio`'s client makes them, to each server of a public port."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import grpc.aio
import pytest
from tests.grpc_core.echo import Echo, Server, call_echo, serving
from tests.waiting import DEADLINE_S


async def test_a_unary_call_is_answered_with_what_the_servicer_returns(of: Server) -> None:
    async with serving(of, Echo()) as (_, channel):
        assert await call_echo(channel, "Answer", b"hello") == b"hello"
        assert await call_echo(channel, "Text", "é".encode()) == "é".encode()
        assert await call_echo(channel, "Answer", b"") == b""


async def test_a_servicer_sees_the_deadline_and_the_metadata(of: Server) -> None:
    echo = Echo()
    async with serving(of, echo) as (_, channel):
        await call_echo(channel, "Answer", timeout=5, metadata=(("a", "b"), ("c-bin", b"\x00")))
        assert echo.remaining_s is not None
        assert 0 < echo.remaining_s < 6
        assert (echo.metadata["a"], echo.metadata["c-bin"]) == ("b", b"\x00")
        await call_echo(channel, "Answer", timeout=None)
        assert echo.remaining_s is None


async def test_a_refusal_has_its_code_its_text_and_its_trailing_metadata(of: Server) -> None:
    async with serving(of, Echo()) as (_, channel):
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await call_echo(channel, "Refuse")
    failure = raised.value
    assert (failure.code(), failure.details()) == (grpc.StatusCode.NOT_FOUND, "no such key")
    assert dict(failure.trailing_metadata())["reason-bin"] == b"\x01"


@pytest.mark.parametrize(
    ("name", "request_", "code"),
    [
        ("Absent", b"", grpc.StatusCode.UNIMPLEMENTED),
        ("BreakDown", b"", grpc.StatusCode.UNKNOWN),
        ("Text", b"\xff", grpc.StatusCode.INVALID_ARGUMENT),
        ("Answer", b"x" * 1001, grpc.StatusCode.RESOURCE_EXHAUSTED),
    ],
)
async def test_what_cannot_be_answered_has_a_status(
    of: Server, name: str, request_: bytes, code: grpc.StatusCode
) -> None:
    async with serving(of, Echo()) as (_, channel):
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await call_echo(channel, name, request_)
        assert raised.value.code() == code
        assert await call_echo(channel, "Answer", b"after") == b"after"


async def test_a_stream_of_answers_ends_with_its_servicer(of: Server) -> None:
    async with serving(of, Echo()) as (_, channel):
        count: Any = channel.unary_stream("/test.Echo/Count")
        call = count(b"100", timeout=DEADLINE_S)
        assert dict(await call.initial_metadata())["made"] == "early"
        assert [message async for message in call] == [b"%d" % number for number in range(100)]


@pytest.mark.parametrize("name", ["Converse", "Generate"])
async def test_a_stream_goes_both_ways_until_the_client_ends_its_side(
    of: Server, name: str
) -> None:
    async with serving(of, Echo()) as (_, channel):
        call: Any = channel.stream_stream(f"/test.Echo/{name}")(timeout=DEADLINE_S)
        for message in (b"a", b"", b"c"):
            await call.write(message)
            assert await call.read() == message
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF
        assert await call.code() == grpc.StatusCode.OK


@pytest.mark.parametrize("given_up", ["cancelled", "late"])
async def test_a_servicer_is_cancelled_when_its_client_gives_up(of: Server, given_up: str) -> None:
    echo = Echo()
    async with serving(of, echo) as (_, channel):
        timeout_s = 1.0 if given_up == "late" else DEADLINE_S
        asking = asyncio.create_task(call_echo(channel, "Wait", timeout=timeout_s))
        async with asyncio.timeout(DEADLINE_S):
            await echo.begun.wait()
            if given_up == "cancelled":
                asking.cancel()
            await echo.cancelled.wait()
        with pytest.raises((grpc.aio.AioRpcError, asyncio.CancelledError)):
            await asking


async def test_thousands_of_calls_at_once_are_all_answered(of: Server) -> None:
    async with serving(of, Echo()) as (_, channel):
        wanted = [b"%d" % number for number in range(3000)]
        found = await asyncio.gather(
            *(call_echo(channel, "Answer", each, timeout=60) for each in wanted)
        )
        assert found == wanted
