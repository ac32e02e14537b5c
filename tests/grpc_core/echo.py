"""An echo service with calls of every kind, and a client of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
from tests.waiting import DEADLINE_S

from queryable_state.server.aio_server import AioServer
from queryable_state.server.grpc_core import GrpcServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from queryable_state.server.grpc_core.server_call import ServerCall


OPTIONS = [
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", 1000),
    ("grpc.server.max_pending_requests", 1_000_000),
    ("grpc.server.max_pending_requests_hard_limit", 1_000_000),
]
Server = Callable[..., GrpcServer | AioServer]


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
async def serving(
    of: Server, echo: Echo
) -> AsyncIterator[tuple[GrpcServer | AioServer, grpc.aio.Channel]]:
    server = of(OPTIONS)
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


async def call_echo(
    channel: grpc.aio.Channel, name: str, request: bytes = b"x", **given: Any
) -> Any:
    call: Any = channel.unary_unary(f"/test.Echo/{name}")
    return await call(request, **{"timeout": DEADLINE_S} | given)
