"""One attack: its targets, how long it lasts, and the statuses it was answered."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import grpc
from tests.hostile import raw_grpc

from queryable_state.v1 import query_pb2, query_pb2_grpc
from queryable_state.wire.frames.framed_stream import PREAMBLE, FrameReader, framed
from queryable_state.wire.frames.stream_hello import client_hello
from queryable_state.wire.keys.key_groups import KeyGroups
from queryable_state.wire.schema.types import Types

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator


SERVICE = "/queryable_state.v1.QueryableState"
KEYS = KeyGroups(Types.STRING(), 128)
_CONNECTIONS = 30
_STRANGERS = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
"""Callers who may see a state are told which server has it; others learn no address."""


@dataclass
class Attack:
    """What is attacked, for how long, and what it answered."""

    public: list[str]
    internal: list[str]
    frames: list[str]
    seconds: float
    job: str = "sensors"
    state: str = "last"
    entries: str = "counts"
    """A map state."""
    large: str = "large"
    """A state of large values."""
    large_id: int = 0
    """Id of that state."""
    token: str = ""
    """What every call carries; empty: nothing."""
    answers: Counter[str] = field(default_factory=Counter)
    ends_s: float = 0.0

    def goes_on(self) -> bool:
        """Whether it is not over."""
        if not self.ends_s:
            self.ends_s = time.monotonic() + self.seconds
        return time.monotonic() < self.ends_s

    @property
    def authorization(self) -> str:
        """The authorization of its calls and hellos."""
        return f"Bearer {self.token}" if self.token else ""

    @property
    def hello(self) -> bytes:
        """The first bytes of a frame connection."""
        return PREAMBLE + framed(client_hello("t", self.authorization))

    @property
    def named(self) -> bytes:
        """The beginning of a request for the keys of a state."""
        request = query_pb2.BatchGetKvStateRequest(job=self.job, state_name=self.state)
        return request.SerializeToString()

    def call(self, address: str, method: str, request: bytes, timeout_s: float = 5.0) -> None:
        """One unary call with these bytes as its request."""
        options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
        with grpc.insecure_channel(address, options=options) as channel:
            self.called(channel, method, request, timeout_s)

    def called(self, channel: grpc.Channel, method: str, request: bytes, timeout_s: float) -> None:
        """The same on a channel."""
        self.called_as(channel, method, request, self.authorization, timeout_s)

    def called_as(
        self,
        channel: grpc.Channel,
        method: str,
        request: bytes,
        authorization: str,
        timeout_s: float = 5.0,
    ) -> None:
        """The same with another authorization."""
        try:
            call: Any = channel.unary_unary(method)
            metadata = (("authorization", authorization),) if authorization else ()
            call(request, timeout=timeout_s, metadata=metadata)
        except ValueError:
            # No HTTP/2 header has these bytes: nothing was sent.
            self.answers["no header"] += 1
        except grpc.RpcError as failure:
            refused: Any = failure
            self.answers[f"{method.rpartition('/')[2]} {refused.code().name}"] += 1
            is_stranger = refused.code() in _STRANGERS
            text = str(refused.details())
            if "Traceback" in text or (is_stranger and "127.0.0.1" in text):
                self.answers[f"tells too much: {text}"] += 1
        else:
            self.answers[f"{method.rpartition('/')[2]} OK"] += 1

    def sockets(self, addresses: list[str]) -> Iterator[socket.socket]:
        """Some connections to each."""
        for address in addresses:
            for _ in range(_CONNECTIONS):
                with contextlib.suppress(OSError):
                    yield raw_grpc.connected(address)

    def refusal(self, from_: socket.socket, timeout_s: float = 5.0) -> None:
        """Notes how a connection of frames is refused."""
        reader = FrameReader(64 << 20)
        from_.settimeout(timeout_s)
        with contextlib.suppress(OSError):
            while data := from_.recv(65536):
                reader.feed(data)
            while frame := reader.take():
                response = query_pb2.ServerFrame.FromString(frame)
                if response.WhichOneof("frame") == "error":
                    self.answers[f"frames {response.error.reason}"] += 1


def state_id_of(address: str, job: str, state: str, token: str = "") -> int:
    """The id of a state, as a caller with a token is told."""
    with grpc.insecure_channel(address) as channel:
        stub: Any = query_pb2_grpc.QueryableStateStub(channel)
        located = stub.LocateState(
            query_pb2.LocateStateRequest(job=job, state_name=state),
            timeout=20,
            metadata=(("authorization", f"Bearer {token}"),) if token else (),
        )
    found: int = located.location.registration.state_id
    return found


def frame_port(address: str, token: str = "") -> str:
    """HOST:PORT of the frames of the server at an address."""
    with grpc.insecure_channel(address) as channel:
        stub: Any = query_pb2_grpc.QueryableStateStub(channel)
        described = stub.DescribeServer(
            query_pb2.DescribeServerRequest(),
            timeout=20,
            metadata=(("authorization", f"Bearer {token}"),) if token else (),
        )
    return f"{address.rpartition(':')[0]}:{described.frames.port}"
