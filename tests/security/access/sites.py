"""A secured cluster in the test's process, and calls with tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc.aio
from google.protobuf.message_factory import GetMessageClass
from tests.query.streams import Frames
from tests.waiting import DEADLINE_S

from queryable_state.server.security.access.access_settings import AccessSettings
from queryable_state.server.security.access.tokens import digest_of
from queryable_state.server.testing.cluster import InProcessCluster, declare
from queryable_state.v1 import query_pb2, query_pb2_grpc, registration_pb2
from queryable_state.wire.frames.framed_stream import PREAMBLE, framed
from queryable_state.wire.status import error_from_call

if TYPE_CHECKING:
    from pathlib import Path

    from queryable_state.server.testing.cluster import InProcessJob
    from queryable_state.wire.errors import QueryableStateError


CALLERS = ("reader", "scanner", "lister", "admin", "all", "nobody")
"""Names of tokens; a token is its name after `qst_`."""

RULES = (
    "[tokens]\n"
    + "".join(f'{name} = "{digest_of(f"qst_{name}")}"\n' for name in CALLERS)
    + """
[[grants]]
callers = ["reader"]
jobs = ["sensors"]
states = ["last"]
kinds = ["read"]
[[grants]]
callers = ["scanner"]
jobs = ["sensors"]
states = ["last"]
kinds = ["scan"]
[[grants]]
callers = ["lister"]
jobs = ["sensors"]
states = ["*"]
kinds = ["list"]
[[grants]]
callers = ["admin"]
jobs = ["sensors"]
states = ["last"]
kinds = ["admin"]
[[grants]]
callers = ["all"]
jobs = ["*"]
states = ["*"]
kinds = ["read", "scan", "list", "admin"]
"""
)


def write_rules(folder: Path, text: str = RULES) -> AccessSettings:
    """Writes the access file; returns the settings that name it."""
    path = folder / "access.toml"
    path.write_text(text)
    return AccessSettings(access_file=str(path))


def token(name: str) -> str:
    return f"qst_{name}"


async def start_job(cluster: InProcessCluster) -> InProcessJob:
    """The job `sensors` with the states `last` and `seen`, after batch 0."""
    job = cluster.job(
        "sensors",
        declare("last", "string", "double"),
        declare("seen", "string", "string", kind=registration_pb2.LIST),
    )
    await job.run(
        0,
        {
            "last": {f"sensor_{number}": float(number) for number in range(100)},
            "seen": {"sensor_1": ["a", "b"]},
        },
    )
    return job


def bearer(name: str | None) -> tuple[tuple[str, str], ...]:
    """The metadata of a caller; None: of nobody."""
    return () if name is None else (("authorization", f"Bearer {token(name)}"),)


class Asker:
    """Unary calls and scans of one caller, as any gRPC client makes them."""

    def __init__(self, address: str, name: str | None) -> None:
        self._channel = grpc.aio.insecure_channel(address)
        self._metadata = bearer(name)
        self.stub: Any = query_pb2_grpc.QueryableStateStub(self._channel)

    async def __aenter__(self) -> Asker:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._channel.close()

    async def ask(self, method: str, **fields: Any) -> Any:
        """Calls a method; raises the refusal."""
        service = query_pb2.DESCRIPTOR.services_by_name["QueryableState"]
        kind = GetMessageClass(service.methods_by_name[method].input_type)
        call = getattr(self.stub, method)(
            kind(**fields), metadata=self._metadata, timeout=DEADLINE_S
        )
        try:
            if method == "ScanKvState":
                return [message async for message in call]
            return await call
        except grpc.aio.AioRpcError as failure:
            raise error_from_call(failure, "server") from failure

    async def status(self, method: str, **fields: Any) -> str:
        """OK, or the status code of the refusal."""
        from queryable_state.wire.errors import QueryableStateError
        from queryable_state.wire.status import status_of

        try:
            await self.ask(method, **fields)
        except QueryableStateError as refusal:
            return status_of(refusal).name
        return "OK"


async def hello(address: str, authorization: str) -> Frames:
    """A frame connection that has sent its hello."""
    frames = await Frames.connect(await _open_frame_port(address), PREAMBLE)
    sent = query_pb2.ClientHello(min_version=1, client="test", authorization=authorization)
    frames.writer.write(framed(query_pb2.ClientFrame(hello=sent).SerializeToString()))
    return frames


async def _open_frame_port(address: str) -> int:
    async with Asker(address, "all") as asker:
        described = await asker.ask("DescribeServer")
    port: int = described.frames.port
    return port


def send(frames: Frames, **fields: Any) -> None:
    query = query_pb2.Query(**({"id": 1, "deadline_ms": 10_000} | fields))
    frames.writer.write(framed(query_pb2.ClientFrame(query=query).SerializeToString()))


async def refused_hello(address: str, authorization: str) -> QueryableStateError:
    """The refusal of a connection with this authorization."""
    frames = await hello(address, authorization)
    try:
        return await frames.refusal()
    finally:
        frames.writer.close()
