"""What a client that asks and does not read can do to a server: nothing to others."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc.aio
from tests.query.streams import OneSession

from queryable_state.server.query.frames.answer_frames import frame_of
from queryable_state.server.query.frames.answer_stream import AnswerStream
from queryable_state.server.query.router import ServiceInfo
from queryable_state.server.serving.large_request_queue import LargeRequestQueue
from queryable_state.server.settings import Limits
from queryable_state.v1 import query_pb2
from queryable_state.wire.frames.stream_hello import PROTOCOL_VERSION

QUERIES = 600
ANSWER = b"x" * 100_000
TURNS = 20 * QUERIES


class Call:
    """gRPC's side of a call whose client has sent all its queries, and reads when it likes."""

    def __init__(self) -> None:
        self.reads = asyncio.Event()
        self.asked = self.answered = 0
        self._greeted = False

    async def read(self) -> Any:
        await asyncio.sleep(0)
        if not self._greeted:
            hello = query_pb2.ClientHello(protocol_version=PROTOCOL_VERSION, client="test")
            return query_pb2.StreamKvStateRequest(hello=hello).SerializeToString()
        if self.asked == QUERIES:
            return grpc.aio.EOF
        self.asked += 1
        query = query_pb2.Query(id=self.asked, state_id=1, keys=[b"\x00\x01key"])
        return query_pb2.StreamKvStateRequest(query=query).SerializeToString()

    async def write(self, frame: bytes) -> None:
        if not self._greeted:
            self._greeted = True
            return
        await self.reads.wait()
        self.answered += 1


class Later(OneSession):
    """Answers each query in the next turn of the loop, as a proxy does."""

    def ask(self, query: query_pb2.Query, frame: bytes) -> bytes | None:
        answer = frame_of(query_pb2.Answer(id=query.id, last=True, values=[ANSWER]))
        asyncio.get_running_loop().call_soon(self.deliver, query.id, answer, True)
        return None


async def test_no_more_is_read_from_a_client_that_does_not_take_its_answers() -> None:
    call = Call()
    info = ServiceInfo(server_id="proxy", role=query_pb2.PROXY, limits=Limits())
    stream = asyncio.create_task(AnswerStream(call, Later(), info, LargeRequestQueue()).run())  # type: ignore[arg-type]
    for _ in range(TURNS):
        await asyncio.sleep(0)
    # Some megabytes of answers wait, and the queries in flight.
    assert call.asked * len(ANSWER) < 20 * 1024 * 1024
    call.reads.set()
    async with asyncio.timeout(20):
        await stream
    assert call.answered == call.asked == QUERIES
