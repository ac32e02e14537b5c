"""A frame port with access control whose router answers when the test says so."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Self

from tests.query.streams import Frames, OneSession, wire_keys
from tests.security.access.issuers import AUDIENCE, ISSUER, Issuer
from tests.security.access.sites import RULES, send, write_rules

from queryable_state.server.config.limits import Limits
from queryable_state.server.query.frames.answer_frames import frame_of
from queryable_state.server.query.frames.frame_server import FrameServer
from queryable_state.server.query.frames.open_streams import OpenStreams
from queryable_state.server.query.router import ServiceInfo
from queryable_state.server.security.access.access_control import AccessControl
from queryable_state.server.security.access.access_settings import AccessSettings
from queryable_state.server.security.access.gate import Gate
from queryable_state.server.security.access.guarded_router import GuardedRouter
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.frames.framed_stream import PREAMBLE, framed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine
    from pathlib import Path

STATES = {1: "last", 2: "seen"}


class Waiting(OneSession):
    """Every query waits until the test answers it. The states of `STATES` by id."""

    def __init__(self) -> None:
        self.asked: list[query_pb2.Query] = []

    def ask(self, query: query_pb2.Query, frame: bytes) -> bytes | None:
        self.asked.append(query)
        return None

    async def registered(  # type: ignore[override]
        self, state_id: int
    ) -> registration_pb2.StateRegistration:
        return registration_pb2.StateRegistration(
            state_id=state_id,
            job_id=b"\x01" * 16,
            job_name="sensors",
            queryable_name=STATES[state_id],
        )

    def answer(self, query_id: int, *, part: int = 0, last: bool = True) -> None:
        answer = query_pb2.Answer(id=query_id, part=part, last=last, values=[b"fresh"])
        self.deliver(query_id, frame_of(answer), last)


class GuardedPort:
    """The port; `now_s` is the time by which JWTs expire."""

    def __init__(self, folder: Path) -> None:
        self.now_s = 1_800_000_000.0
        self.issuer = Issuer()
        self._folder = folder
        keys = folder / "keys.json"
        keys.write_bytes(self.issuer.jwks())
        self.write(RULES)
        settings = AccessSettings(
            access_file=str(folder / "access.toml"),
            jwt_keys=str(keys),
            jwt_issuer=ISSUER,
            jwt_audience=AUDIENCE,
        )
        self.access = AccessControl(settings, clock=lambda: self.now_s)
        self.router = Waiting()
        info = ServiceInfo(server_id="guarded", role=query_pb2.OWNER, limits=Limits())
        guarded = GuardedRouter(self.router, Gate(self.access))
        self._server = FrameServer(guarded, info, OpenStreams(info))
        self._port = self._server.add_port("127.0.0.1:0")

    def write(self, rules: str) -> None:
        """Writes the access file; `alice` has a JWT."""
        write_rules(self._folder, rules.replace('["reader"', '["alice", "reader"'))

    def jwt(self, *, life_s: float = 60) -> str:
        return self.issuer.token(exp=int(self.now_s + life_s))

    async def connect(self, token: str) -> Frames:
        """A connection after its hello."""
        frames = await Frames.connect(self._port, PREAMBLE)
        hello = query_pb2.ClientHello(min_version=1, client="test", authorization=f"Bearer {token}")
        frames.writer.write(framed(query_pb2.ClientFrame(hello=hello).SerializeToString()))
        assert (await frames.response()).WhichOneof("frame") == "hello"
        return frames

    async def ask(self, frames: Frames, query_id: int, *, state_id: int = 1) -> None:
        """Sends a query, and returns once it waits."""
        before = len(self.router.asked)
        send(frames, id=query_id, state_id=state_id, keys=wire_keys("a"), deadline_ms=3_600_000)
        async with asyncio.timeout(10):
            while len(self.router.asked) == before:  # noqa: ASYNC110 - the router only records
                await asyncio.sleep(0.001)

    async def reload(self, rules: str) -> None:
        """Returns once the rules are in force."""
        before = self.access.generation
        self.write(rules)
        async with self.following(), asyncio.timeout(10):
            while self.access.generation == before:  # noqa: ASYNC110 - follows a file
                await asyncio.sleep(0.001)

    def following(self) -> contextlib.AbstractAsyncContextManager[None]:
        return _running(self.access.run())

    def sweeping(self) -> contextlib.AbstractAsyncContextManager[None]:
        return _running(self.access.sessions.run())

    async def __aenter__(self) -> Self:
        await self._server.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._server.aclose()


@contextlib.asynccontextmanager
async def _running(run: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(run)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
