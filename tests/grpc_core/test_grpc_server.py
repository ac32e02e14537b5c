"""Calls of all kinds, as `grpc.aio`'s client makes them, to each server of a public port."""

from __future__ import annotations

import asyncio
import gc
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import pytest

from queryable_state.server.aio_server import AioServer
from queryable_state.server.grpc_core import GrpcServer
from queryable_state.server.grpc_core.missing import missing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from queryable_state.server.grpc_core.server_call import ServerCall

_OPTIONS = [
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", 1000),
    ("grpc.server.max_pending_requests", 1_000_000),
    ("grpc.server.max_pending_requests_hard_limit", 1_000_000),
]
_DEADLINE_S = 10.0

Server = type[GrpcServer] | type[AioServer]


@pytest.fixture(params=[GrpcServer, AioServer], ids=["grpc core", "grpc.aio"])
def of(request: pytest.FixtureRequest) -> Server:
    """The server under test."""
    server: Server = request.param
    return server


class _Text:
    """A message that is not bytes."""

    def __init__(self, text: str) -> None:
        self._text = text

    @classmethod
    def parsed(cls, message: bytes) -> _Text:
        return cls(message.decode())

    def encoded(self) -> bytes:
        return self._text.encode()


class Echo:
    """Servicers of each kind, and what became of their calls."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.remaining_s: float | None = None
        self.metadata: dict[str, Any] = {}

    async def answer(self, request: bytes, call: ServerCall) -> bytes:
        self.remaining_s = call.time_remaining()
        self.metadata = dict(call.invocation_metadata())
        return request

    async def refuse(self, _request: bytes, call: ServerCall) -> bytes:
        await call.abort(grpc.StatusCode.NOT_FOUND, "no such key", (("reason-bin", b"\x01"),))

    async def break_down(self, _request: bytes, _call: ServerCall) -> bytes:
        raise ZeroDivisionError

    async def wait(self, _request: bytes, _call: ServerCall) -> bytes:
        self.begun.set()
        try:
            await asyncio.Event().wait()
            return b""
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    async def count(self, request: bytes, call: ServerCall) -> None:
        await call.send_initial_metadata((("made", "early"),))
        for number in range(int(request)):
            await call.write(b"%d" % number)

    async def converse(self, _requests: object, call: ServerCall) -> None:
        while (request := await call.read()) is not grpc.aio.EOF:
            await call.write(request)

    async def generate(
        self, requests: AsyncIterator[bytes], _call: ServerCall
    ) -> AsyncIterator[bytes]:
        async for request in requests:
            yield request

    def handlers(self) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
        unary, stream = grpc.unary_unary_rpc_method_handler, grpc.stream_stream_rpc_method_handler
        return {
            "Answer": unary(self.answer),
            "Text": unary(
                self.answer, request_deserializer=_Text.parsed, response_serializer=_Text.encoded
            ),
            "Refuse": unary(self.refuse),
            "BreakDown": unary(self.break_down),
            "Wait": unary(self.wait),
            "Count": grpc.unary_stream_rpc_method_handler(self.count),
            "Converse": stream(self.converse),
            "Generate": stream(self.generate),
        }


@asynccontextmanager
async def _serving(
    of: Server, echo: Echo
) -> AsyncIterator[tuple[GrpcServer | AioServer, grpc.aio.Channel]]:
    server = of(_OPTIONS)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("test.Echo", echo.handlers()),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield server, channel
    finally:
        await server.stop(0)


async def _call(channel: grpc.aio.Channel, name: str, request: bytes = b"x", **given: Any) -> Any:
    call: Any = channel.unary_unary(f"/test.Echo/{name}")
    return await call(request, **{"timeout": _DEADLINE_S} | given)


async def test_a_unary_call_is_answered_with_what_the_servicer_returns(of: Server) -> None:
    async with _serving(of, Echo()) as (_, channel):
        assert await _call(channel, "Answer", b"hello") == b"hello"
        assert await _call(channel, "Text", "é".encode()) == "é".encode()
        assert await _call(channel, "Answer", b"") == b""


async def test_a_servicer_sees_the_deadline_and_the_metadata(of: Server) -> None:
    echo = Echo()
    async with _serving(of, echo) as (_, channel):
        await _call(channel, "Answer", timeout=5, metadata=(("a", "b"), ("c-bin", b"\x00")))
        assert echo.remaining_s is not None
        assert 0 < echo.remaining_s < 6
        assert (echo.metadata["a"], echo.metadata["c-bin"]) == ("b", b"\x00")
        await _call(channel, "Answer", timeout=None)
        assert echo.remaining_s is None


async def test_a_refusal_has_its_code_its_text_and_its_trailing_metadata(of: Server) -> None:
    async with _serving(of, Echo()) as (_, channel):
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await _call(channel, "Refuse")
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
    async with _serving(of, Echo()) as (_, channel):
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await _call(channel, name, request_)
        assert raised.value.code() == code
        assert await _call(channel, "Answer", b"after") == b"after"


async def test_a_stream_of_answers_ends_with_its_servicer(of: Server) -> None:
    async with _serving(of, Echo()) as (_, channel):
        count: Any = channel.unary_stream("/test.Echo/Count")
        call = count(b"100", timeout=_DEADLINE_S)
        assert dict(await call.initial_metadata())["made"] == "early"
        assert [message async for message in call] == [b"%d" % number for number in range(100)]


@pytest.mark.parametrize("name", ["Converse", "Generate"])
async def test_a_stream_goes_both_ways_until_the_client_ends_its_side(
    of: Server, name: str
) -> None:
    async with _serving(of, Echo()) as (_, channel):
        call: Any = channel.stream_stream(f"/test.Echo/{name}")(timeout=_DEADLINE_S)
        for message in (b"a", b"", b"c"):
            await call.write(message)
            assert await call.read() == message
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF
        assert await call.code() == grpc.StatusCode.OK


@pytest.mark.parametrize("given_up", ["cancelled", "late"])
async def test_a_servicer_is_cancelled_when_its_client_gives_up(of: Server, given_up: str) -> None:
    echo = Echo()
    async with _serving(of, echo) as (_, channel):
        timeout_s = 1.0 if given_up == "late" else _DEADLINE_S
        asking = asyncio.create_task(_call(channel, "Wait", timeout=timeout_s))
        async with asyncio.timeout(_DEADLINE_S):
            await echo.begun.wait()
            if given_up == "cancelled":
                asking.cancel()
            await echo.cancelled.wait()
        with pytest.raises((grpc.aio.AioRpcError, asyncio.CancelledError)):
            await asking


async def test_thousands_of_calls_at_once_are_all_answered(of: Server) -> None:
    async with _serving(of, Echo()) as (_, channel):
        wanted = [b"%d" % number for number in range(3000)]
        found = await asyncio.gather(
            *(_call(channel, "Answer", each, timeout=60) for each in wanted)
        )
        assert found == wanted


async def test_a_server_that_stops_answers_what_it_has_begun_and_takes_no_more(of: Server) -> None:
    release = asyncio.Event()

    class Slow(Echo):
        async def answer(self, request: bytes, call: ServerCall) -> bytes:
            begun.set()
            await release.wait()
            return request

    begun = asyncio.Event()
    async with _serving(of, Slow()) as (server, channel):
        asking = asyncio.create_task(_call(channel, "Answer", b"kept"))
        await begun.wait()
        stopping = asyncio.create_task(server.stop(_DEADLINE_S))
        await asyncio.sleep(0)
        with pytest.raises(grpc.aio.AioRpcError):
            await _call(channel, "Answer", b"new", timeout=1)
        release.set()
        assert await asking == b"kept"
        await stopping


async def test_a_server_that_stops_cancels_what_outlasts_its_grace(of: Server) -> None:
    echo = Echo()
    async with _serving(of, echo) as (server, channel):
        asking = asyncio.create_task(_call(channel, "Wait"))
        await echo.begun.wait()
        stream: Any = channel.stream_stream("/test.Echo/Converse")()
        await stream.write(b"x")
        assert await stream.read() == b"x"
        began = time.monotonic()
        await server.stop(0.01)
        await server.stop(0.01)
        assert time.monotonic() - began < _DEADLINE_S
        assert echo.cancelled.is_set()
        with pytest.raises(grpc.aio.AioRpcError):
            await asking


async def test_a_port_that_is_taken_is_refused_and_free_after_the_stop(of: Server) -> None:
    async with _serving(of, Echo()):
        taken = of(_OPTIONS)
        port = taken.add_insecure_port("127.0.0.1:0")
        await taken.start()
        with pytest.raises(RuntimeError):
            of(_OPTIONS).add_insecure_port(f"127.0.0.1:{port}")
        await taken.stop(0)
        again = of(_OPTIONS)
        assert again.add_insecure_port(f"127.0.0.1:{port}") == port
    # Never started: nothing to stop.
    await again.stop(0)
    del again, taken
    gc.collect()


async def test_nothing_of_a_call_that_was_given_up_waits_for_the_garbage_collector() -> None:
    """Our processes collect cycles hardly ever, and a call has its request."""

    def alive() -> int:
        return sum(type(each).__name__ == "ServerCall" for each in gc.get_objects())

    async with _serving(GrpcServer, Echo()) as (_, channel):
        gc.collect()
        gc.disable()
        try:
            for _ in range(5):
                with pytest.raises(grpc.aio.AioRpcError):
                    await _call(channel, "Wait", timeout=0.1)
            async with asyncio.timeout(_DEADLINE_S):
                while alive():  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        finally:
            gc.enable()


async def test_a_server_that_is_idle_waits_for_no_endless_call(of: Server) -> None:
    server = of(_OPTIONS, endless=("/test.Echo/Wait",))
    echo = Echo()
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("test.Echo", echo.handlers()),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        asking = asyncio.create_task(_call(channel, "Wait"))
        await echo.begun.wait()
        server.shut_down()
        async with asyncio.timeout(_DEADLINE_S):
            await server.idle()
        await server.stop(0)
        with pytest.raises(grpc.aio.AioRpcError):
            await asking


def test_the_installed_grpcio_has_the_core_that_is_known() -> None:
    assert missing() == ""


@pytest.mark.parametrize(
    ("module", "text"), [("grpc._cython.gone", "gone"), ("grpc.aio", "Server")]
)
def test_another_core_is_named_before_a_server_is_made(module: str, text: str) -> None:
    assert text in missing(module)
