"""What connections of frames may hold, and that nothing of them is left when they are gone."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from typing import TYPE_CHECKING

import pytest
from tests.query.connections.test_frame_server import Echo
from tests.query.streams import Frames, Mute, OneSession, frame_port_of
from tests.waiting import eventually

from queryable_state.server.config.limits import Limits
from queryable_state.server.query.frames.answer_frames import frame_of
from queryable_state.server.query.frames.frame_connection import FrameConnection
from queryable_state.server.query.frames.frame_server import FrameServer
from queryable_state.server.query.frames.open_streams import OpenStreams
from queryable_state.server.query.router import ServiceInfo
from queryable_state.server.serving.byte_budget import ClientBudgets
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import Reason
from queryable_state.wire.frames.framed_stream import PREAMBLE, framed
from queryable_state.wire.frames.stream_hello import client_hello

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from queryable_state.server.query.proxy.proxy_server import ProxyServer

GREETING = PREAMBLE + framed(client_hello("t"))
MIB = 1 << 20


def query_of(number: int, size_bytes: int = 0) -> bytes:
    query = query_pb2.Query(id=number, state_id=1, keys=[b"\x00\x01key", *(size_bytes // 60_000) * [
        b"\x00\x01" + b"x" * 60_000
    ]])  # fmt: skip
    return framed(query_pb2.ClientFrame(query=query).SerializeToString())


@contextlib.asynccontextmanager
async def serving(
    router: OneSession, limits: Limits, budgets: ClientBudgets | None = None
) -> AsyncIterator[int]:
    info = ServiceInfo(server_id="one", role=query_pb2.PROXY, limits=limits)
    server = FrameServer(router, info, OpenStreams(info), budgets)
    port = server.add_port("127.0.0.1:0")
    await server.start()
    yield port
    await server.aclose()


async def test_before_its_hello_a_client_may_send_4_kib() -> None:
    async with serving(Echo(), Limits()) as port:
        frames = await Frames.connect(port, PREAMBLE + (4097).to_bytes(4, "big"))
        refusal = await frames.refusal()
        assert refusal.reason == Reason.LIMIT_EXCEEDED
        assert "4,096" in refusal.message
        frames.writer.close()


async def test_a_frame_that_is_never_completed_is_refused() -> None:
    async with serving(Echo(), Limits(read_timeout_s=0.1)) as port:
        frames = await Frames.connect(port, GREETING + query_of(1)[:-1])
        assert (await frames.response()).hello.server_id
        refusal = await frames.refusal()
        assert refusal.reason == Reason.DEADLINE_EXCEEDED
        assert "not completed within 0.1 s" in refusal.message
        frames.writer.close()


async def test_a_client_that_says_nothing_between_its_queries_is_kept() -> None:
    async with serving(Echo(), Limits(read_timeout_s=0.05)) as port:
        frames = await Frames.connect(port, GREETING + query_of(1))
        await frames.response()
        await frames.response()
        await asyncio.sleep(0.3)
        frames.writer.write(query_of(2))
        assert (await frames.response()).answer.id == 2
        frames.writer.close()


async def test_a_client_that_reads_nothing_is_hung_up_on() -> None:
    asked = b"".join(map(query_of, range(1, 400)))
    budgets = ClientBudgets(64 * MIB)
    async with serving(Echo(), Limits(read_timeout_s=0.3), budgets) as port:
        frames = await Frames.connect(port, GREETING + asked)
        await eventually(lambda: budgets.answers.used_bytes > MIB)
        assert budgets.answers.used_bytes < 10 * MIB
        await eventually(lambda: budgets.answers.used_bytes == 0)
        frames.writer.close()


async def test_unanswered_queries_of_all_connections_together_are_bounded() -> None:
    """Beyond that nothing more is read, but small queries of others are."""
    budgets = ClientBudgets(4 * MIB)
    limits = Limits(queries_in_flight=1000)
    async with serving(Mute(), limits, budgets) as port:
        asked = b"".join(query_of(number, MIB) for number in range(1, 9))
        greedy = [await Frames.connect(port, GREETING + asked) for _ in range(4)]
        await eventually(lambda: budgets.requests.used_bytes >= 4 * MIB)
        await asyncio.sleep(0.2)
        # Of each what was read before it had to wait.
        assert budgets.requests.used_bytes < 9 * MIB
        modest = await Frames.connect(port, GREETING)
        assert (await modest.response()).hello.server_id
        for frames in (*greedy, modest):
            frames.writer.close()
    await eventually(lambda: budgets.requests.used_bytes == 0)


class LargeAnswers(OneSession):
    """Gives the first one later, as an owner does, and no other."""

    def __init__(self) -> None:
        self.asked = 0

    def ask(self, query: query_pb2.Query, frame: bytes) -> bytes | None:
        self.asked += 1
        if self.asked == 1:
            answer = frame_of(query_pb2.Answer(id=query.id, last=True, values=[b"x" * 100_000]))
            asyncio.get_running_loop().call_soon(self.deliver, query.id, answer, True)
        return None


async def test_of_large_answers_only_some_are_on_their_way_from_owners_for_one_client() -> None:
    """They answer what they were asked, whether the client takes it or not."""
    owner = LargeAnswers()
    async with serving(owner, Limits()) as port:
        frames = await Frames.connect(port, GREETING + query_of(1))
        assert (await frames.response()).hello.server_id
        assert (await frames.response()).answer.id == 1
        frames.writer.write(b"".join(map(query_of, range(2, 50))))
        await eventually(lambda: owner.asked == 5)
        await asyncio.sleep(0.2)
        assert owner.asked == 5
        # One that is answered makes room for the next one.
        owner.deliver(2, frame_of(query_pb2.Answer(id=2, last=True, values=[b"x" * 100_000])), True)
        await eventually(lambda: owner.asked == 6)
        frames.writer.close()


async def test_silent_connections_do_not_take_the_places_of_clients() -> None:
    """The limit counts connections that have said hello; others are bounded by themselves."""
    async with serving(Echo(), Limits(connections=1)) as port:
        silent = [await Frames.connect(port, PREAMBLE) for _ in range(5)]
        first = await Frames.connect(port, GREETING)
        assert (await first.response()).hello.server_id
        second = await Frames.connect(port, GREETING)
        assert (await second.refusal()).reason == Reason.OVERLOADED
        for frames in (*silent, first, second):
            frames.writer.close()


@pytest.mark.parametrize("first", [b"", PREAMBLE, GREETING, GREETING + query_of(1)[:9], b"GET /"])
async def test_nothing_of_a_closed_connection_waits_for_the_garbage_collector(
    proxy: ProxyServer, first: bytes
) -> None:
    """Our processes collect cycles hardly ever."""
    port = await frame_port_of(proxy.address)

    def alive() -> int:
        return sum(type(each) is FrameConnection for each in gc.get_referrers(FrameConnection))

    gc.collect()
    before = alive()
    gc.disable()
    try:
        for _ in range(5):
            frames = await Frames.connect(port, first)
            await asyncio.sleep(0.02)
            frames.writer.close()
        await eventually(lambda: alive() <= before)
    finally:
        gc.enable()
