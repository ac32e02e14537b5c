"""Servers of a public port that stop, and what they leave behind."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import Any

import grpc
import grpc.aio
import pytest
from tests.grpc_core.echo import OPTIONS, Echo, Server, call_echo, serving
from tests.waiting import DEADLINE_S

from queryable_state.server.grpc_core import GrpcServer
from queryable_state.server.grpc_core.server_call import ServerCall


async def test_a_server_that_stops_answers_what_it_has_begun_and_takes_no_more(of: Server) -> None:
    release = asyncio.Event()

    class Slow(Echo):
        async def answer(self, request: bytes, call: ServerCall) -> bytes:
            begun.set()
            await release.wait()
            return request

    begun = asyncio.Event()
    async with serving(of, Slow()) as (server, channel):
        asking = asyncio.create_task(call_echo(channel, "Answer", b"kept"))
        await begun.wait()
        stopping = asyncio.create_task(server.stop(DEADLINE_S))
        await asyncio.sleep(0)
        with pytest.raises(grpc.aio.AioRpcError):
            await call_echo(channel, "Answer", b"new", timeout=1)
        release.set()
        assert await asking == b"kept"
        await stopping


async def test_a_server_that_stops_cancels_what_outlasts_its_grace(of: Server) -> None:
    echo = Echo()
    async with serving(of, echo) as (server, channel):
        asking = asyncio.create_task(call_echo(channel, "Wait"))
        await echo.begun.wait()
        stream: Any = channel.stream_stream("/test.Echo/Converse")()
        await stream.write(b"x")
        assert await stream.read() == b"x"
        began = time.monotonic()
        await server.stop(0.01)
        await server.stop(0.01)
        assert time.monotonic() - began < DEADLINE_S
        assert echo.cancelled.is_set()
        with pytest.raises(grpc.aio.AioRpcError):
            await asking


async def test_a_port_that_is_taken_is_refused_and_free_after_the_stop(of: Server) -> None:
    async with serving(of, Echo()):
        taken = of(OPTIONS)
        port = taken.add_insecure_port("127.0.0.1:0")
        await taken.start()
        with pytest.raises(RuntimeError):
            of(OPTIONS).add_insecure_port(f"127.0.0.1:{port}")
        await taken.stop(0)
        again = of(OPTIONS)
        assert again.add_insecure_port(f"127.0.0.1:{port}") == port
    # Never started: nothing to stop.
    await again.stop(0)
    del again, taken
    gc.collect()


async def test_nothing_of_a_call_that_was_given_up_waits_for_the_garbage_collector() -> None:
    """Our processes collect cycles hardly ever, and a call has its request."""

    def alive() -> int:
        return sum(type(each) is ServerCall for each in gc.get_referrers(ServerCall))

    async with serving(GrpcServer, Echo()) as (_, channel):
        gc.collect()
        gc.disable()
        try:
            for _ in range(5):
                with pytest.raises(grpc.aio.AioRpcError):
                    await call_echo(channel, "Wait", timeout=0.1)
            async with asyncio.timeout(DEADLINE_S):
                while alive():  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        finally:
            gc.enable()


async def test_a_server_that_is_idle_waits_for_no_endless_call(of: Server) -> None:
    server = of(OPTIONS, endless=("/test.Echo/Wait",))
    echo = Echo()
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("test.Echo", echo.handlers()),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        asking = asyncio.create_task(call_echo(channel, "Wait"))
        await echo.begun.wait()
        server.shut_down()
        async with asyncio.timeout(DEADLINE_S):
            await server.answered()
        await server.stop(0)
        with pytest.raises(grpc.aio.AioRpcError):
            await asking
