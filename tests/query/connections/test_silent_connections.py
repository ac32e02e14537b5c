"""Frame ports under connections that say nothing, on both event loops."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import socket
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import uvloop
from tests.query.streams import Frames, Mute
from tests.security.authority import Authority
from tests.waiting import DEADLINE_S, eventually

from queryable_state.server.config.limits import Limits
from queryable_state.server.process.rate_limited_log import RateLimitedLog
from queryable_state.server.query.frames.frame_server import FrameServer
from queryable_state.server.query.frames.open_streams import OpenStreams
from queryable_state.server.query.router import ServiceInfo
from queryable_state.server.security.server_tls import ServerTls
from queryable_state.server.serving.sockets import accept_loop
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import Reason
from queryable_state.wire.frames.framed_stream import PREAMBLE, framed
from queryable_state.wire.frames.stream_hello import client_hello

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

SILENT = 300
OPEN = Path("/proc/self/fd")
HELLO = PREAMBLE + framed(client_hello("t"))

Run = asyncio.Runner


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Runs coroutines on the event loops of tests and of servers."""
    factory: Callable[[], asyncio.AbstractEventLoop] = request.param
    with asyncio.Runner(loop_factory=factory) as runner:
        yield runner


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "tls")


class Port:
    """A frame port with TLS, or in clear text without an authority."""

    def __init__(self, authority: Authority | None, *, connections: int = 5) -> None:
        self.tls: ssl.SSLContext | None = None
        tls = None
        if authority is not None:
            tls = ServerTls(authority.settings())
            self.tls = ssl.create_default_context(cafile=authority.ca)
        limits = Limits(connections=connections)
        info = ServiceInfo(server_id="one", role=query_pb2.OWNER, limits=limits)
        self.server = FrameServer(Mute(), info, OpenStreams(info), tls=tls)
        self.port = self.server.add_port("127.0.0.1:0")

    async def __aenter__(self) -> Port:
        await self.server.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.server.aclose()

    async def client(self) -> Frames:
        """A connection that has sent its hello."""
        name = None if self.tls is None else "localhost"
        opened = asyncio.open_connection("127.0.0.1", self.port, ssl=self.tls, server_hostname=name)
        reader, writer = await asyncio.wait_for(opened, DEADLINE_S)
        writer.write(HELLO)
        return Frames(reader, writer)

    @contextlib.asynccontextmanager
    async def silent(self, count: int) -> AsyncIterator[None]:
        """Connections that send nothing; returns once they have the places of the server."""
        before = open_files()
        with contextlib.ExitStack() as opened:
            for _ in range(count):
                each = opened.enter_context(socket.socket())
                each.setblocking(False)
                each.connect_ex(("127.0.0.1", self.port))
            await eventually(lambda: open_files() >= before + count + 50)
            yield


def open_files() -> int:
    return len(list(OPEN.iterdir()))


def resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


@pytest.mark.parametrize("encrypted", [True, False], ids=["TLS", "clear text"])
def test_silent_connections_hold_bounded_memory_and_let_others_in(
    run: Run, authority: Authority, encrypted: bool
) -> None:
    async def attack() -> None:
        async with Port(authority if encrypted else None) as port:
            (await port.client()).writer.close()
            files, memory = open_files(), resident_bytes()
            async with port.silent(SILENT):
                frames = await port.client()
                assert open_files() < files + SILENT + 64 + 10
                assert resident_bytes() < memory + 45 * 1024 * 1024
                assert (await frames.response()).hello.server_id == "one"
                frames.writer.close()

    run.run(attack())


def test_a_storm_of_clients_gets_in(run: Run, authority: Authority) -> None:
    """Connections that say hello do not have to make place for others."""

    async def storm() -> None:
        async with Port(authority, connections=400) as port:
            every = await asyncio.gather(*(port.client() for _ in range(200)))
            for frames in every:
                assert (await frames.response()).hello.server_id == "one"
                frames.writer.close()

    run.run(storm())


def test_clients_above_the_limit_are_told(run: Run, authority: Authority) -> None:
    async def ask() -> None:
        async with Port(authority) as port:
            every = [await port.client() for _ in range(5)]
            for frames in every:
                await frames.response()
            refused = await port.client()
            assert (await refused.refusal()).reason == Reason.OVERLOADED
            for frames in (*every, refused):
                frames.writer.close()

    run.run(ask())


def test_a_closed_port_accepts_nobody_and_keeps_its_connections(
    run: Run, authority: Authority
) -> None:
    async def close() -> None:
        async with Port(authority) as port:
            frames = await port.client()
            await frames.response()
            port.server.close_port()
            with pytest.raises(ConnectionRefusedError):
                await port.client()
            frames.writer.write(framed(b"\xff"))
            assert (await frames.refusal()).reason == Reason.INVALID_REQUEST
            frames.writer.close()

    run.run(close())


def test_without_open_files_it_says_so_and_goes_on_later(
    run: Run, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One that has not logged this yet.
    log = RateLimitedLog(logging.getLogger(__name__))
    monkeypatch.setattr(accept_loop, "_log", log)

    async def exhaust() -> None:
        async with Port(None) as port:
            client = socket.socket()
            client.setblocking(False)
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            taken: list[int] = []
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (client.fileno() + 10, hard))
                with contextlib.suppress(OSError):
                    while True:
                        taken.append(os.open("/dev/null", os.O_RDONLY))
                client.connect_ex(("127.0.0.1", port.port))
                await eventually(lambda: "accepts no connection" in caplog.text)
            finally:
                for each in taken:
                    os.close(each)
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            reader, writer = await asyncio.open_connection(sock=client)
            writer.write(HELLO)
            assert (await Frames(reader, writer).response()).hello.server_id == "one"
            writer.close()

    run.run(exhaust())
    assert caplog.text.count("accepts no connection") == 1
