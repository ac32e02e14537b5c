"""What a hostile peer does to our ports, in a process of its own. Loopback addresses only.

    python -m tests.hostile.attacks NAME SECONDS TARGETS

TARGETS is JSON: HOST:PORT of `public` and `internal` gRPC ports and of `frames`, and the job and
states that are asked for. It prints the statuses and refusals it was answered, as JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
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
    from collections.abc import Callable, Iterator

_SERVICE = "/queryable_state.v1.QueryableState"
_KEYS = KeyGroups(Types.STRING(), 128)
_CONNECTIONS = 30


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
    answers: Counter[str] = field(default_factory=Counter)
    ends_s: float = 0.0

    def goes_on(self) -> bool:
        """Whether it is not over."""
        if not self.ends_s:
            self.ends_s = time.monotonic() + self.seconds
        return time.monotonic() < self.ends_s

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
        try:
            call: Any = channel.unary_unary(method)
            call(request, timeout=timeout_s)
        except grpc.RpcError as failure:
            refused: Any = failure
            self.answers[f"{method.rpartition('/')[2]} {refused.code().name}"] += 1
            if "127.0.0.1" in str(refused.details()) or "Traceback" in str(refused.details()):
                self.answers[f"tells too much: {refused.details()}"] += 1
        else:
            self.answers[f"{method.rpartition('/')[2]} OK"] += 1

    def sockets(self, addresses: list[str]) -> Iterator[socket.socket]:
        """Some connections to each."""
        for address in addresses:
            for _ in range(_CONNECTIONS):
                with contextlib.suppress(OSError):
                    yield raw_grpc.connected(address)

    def refusal(self, from_: socket.socket) -> None:
        """Notes how a connection of frames is refused."""
        reader = FrameReader(1 << 20)
        from_.settimeout(5)
        with contextlib.suppress(OSError):
            while data := from_.recv(65536):
                reader.feed(data)
            while frame := reader.take():
                response = query_pb2.ServerFrame.FromString(frame)
                if response.WhichOneof("frame") == "error":
                    self.answers[f"frames {response.error.reason}"] += 1


def many_keys_json(attack: Attack) -> None:
    """11 million keys in one request of 52 MiB; and as many as one request may have bytes for."""
    huge = attack.named + b'\x4a\x03"a"' * (52 * 1024 * 1024 // 5)
    many = attack.named + b"\x4a\x00" * (2 * 1024 * 1024 - 1000)
    keys = attack.named + b"\x1a\x00" * (2 * 1024 * 1024 - 1000)
    legal = attack.named + (b"\x4a\x80\x06" + b'"' + b"\xc3\xa9" * 383 + b'"') * 4096
    while attack.goes_on():
        for address in attack.public:
            for request in (many, keys, legal, huge):
                attack.call(address, f"{_SERVICE}/BatchGetKvState", request)


def many_runs(attack: Attack) -> None:
    """2 million runs of key groups in a scan."""
    named = query_pb2.ScanKvStateRequest(
        job=attack.job, state_name=attack.state, placement_version=1
    ).SerializeToString()
    run = query_pb2.ScanKvStateRequest(runs=[query_pb2.KeyGroupRun(first=1)]).SerializeToString()
    requests = [
        named + run * (2_000_000),
        named + run * 16_000,
        named + b"\xb2\x01\x00" * 1_300_000,
    ]
    while attack.goes_on():
        for address in attack.public:
            for request in requests:
                attack.call(address, f"{_SERVICE}/ScanKvState", request)


def long_json_key(attack: Attack) -> None:
    """A key of 60 MB, and the longest and deepest that are read at all."""
    texts = (
        '"' + "x" * 60_000_000 + '"',
        "[" * 250_000,
        "[" + "1.5," * 60_000 + "1]",
        "9" * 250_000,
        '{"a":' * 900 + "1" + "}" * 900,
    )
    requests = [
        query_pb2.GetKvStateRequest(
            job=attack.job, state_name=attack.state, key_json=text
        ).SerializeToString()
        for text in texts
    ]
    while attack.goes_on():
        for address in attack.public:
            for request in requests:
                attack.call(address, f"{_SERVICE}/GetKvState", request)


def large_answers_in_json(attack: Attack) -> None:
    """Legal requests for much: a map of 20,000 entries, and every large value, as JSON."""
    one = query_pb2.GetKvStateRequest(
        job=attack.job, state_name=attack.entries, key_json='"sensor_1"'
    )
    many = query_pb2.BatchGetKvStateRequest(
        job=attack.job, state_name=attack.entries, keys_json=['"sensor_1"'] * 4096
    )
    encoded = query_pb2.BatchGetKvStateRequest(
        job=attack.job, state_name=attack.entries, keys=[_KEYS.wire_key("sensor_1")] * 4096
    )
    while attack.goes_on():
        for address in attack.public:
            for method, request in (
                ("GetKvState", one),
                ("BatchGetKvState", many),
                ("BatchGetKvState", encoded),
            ):
                attack.call(address, f"{_SERVICE}/{method}", request.SerializeToString())


def partial_frames(attack: Attack) -> None:
    """Frames of 63 MiB begun before any hello; then the largest ones that are taken, after it."""
    before = list(attack.sockets(attack.frames))
    piece = b"x" * (256 * 1024)
    for each in before:
        raw_grpc.send(each, PREAMBLE + (63 << 20).to_bytes(4, "big"))
    after = list(attack.sockets(attack.frames))
    for each in after:
        raw_grpc.send(each, PREAMBLE + framed(client_hello("t")) + (4 << 20).to_bytes(4, "big"))
    while attack.goes_on():
        alive = [each for each in (*before, *after) if raw_grpc.send(each, piece)]
        if not alive:
            break
    for each in before[:: len(before) // 4 or 1]:
        attack.refusal(each)
    for each in (*before, *after):
        each.close()


def partial_calls(attack: Attack) -> None:
    """Calls whose request of 4 MiB never ends, many on each connection."""
    opened = list(attack.sockets(attack.public))
    for each in opened:
        raw_grpc.send(each, raw_grpc.opening())
    stream = 1
    while attack.goes_on():
        for each in opened:
            call = raw_grpc.headers(f"{_SERVICE}/BatchGetKvState", stream)
            begun = raw_grpc.message(b"x" * 60_000, stream, announced=4 << 20)
            raw_grpc.send(each, call + begun)
        stream += 2
    for each in opened:
        each.close()


def without_secret(attack: Attack) -> None:
    """456 MiB to those ports that want the job's secret."""
    request = b"\x00" * (456 << 20)
    methods = (
        "/queryable_state.internal.v1.Coordinator/PutObject",
        "/queryable_state.internal.v1.StateBackend/Fetch",
    )
    while attack.goes_on():
        for address in attack.internal:
            for method in methods:
                attack.call(address, method, request, timeout_s=20)


def unread_answers(attack: Attack) -> None:
    """512 keys of 10,000 bytes each, asked for again and again; nothing is read."""
    keys = [_KEYS.wire_key(f"sensor_{number % 64}") for number in range(512)]
    batch = query_pb2.BatchGetKvStateRequest(job=attack.job, state_name=attack.large, keys=keys)
    request = batch.SerializeToString()
    calls = list(attack.sockets(attack.public))
    for each in calls:
        raw_grpc.send(each, raw_grpc.opening())
    state_id = _state_id(attack.public[0], attack.job, attack.large)
    query = query_pb2.Query(state_id=state_id, keys=keys)
    streams = list(attack.sockets(attack.frames))
    for each in streams:
        raw_grpc.send(each, PREAMBLE + framed(client_hello("t")))
    stream = 1
    while attack.goes_on():
        for each in calls:
            call = raw_grpc.headers(f"{_SERVICE}/BatchGetKvState", stream)
            raw_grpc.send(each, call + raw_grpc.message(request, stream))
        for each in streams:
            query.id = stream
            asked = query_pb2.ClientFrame(query=query)
            raw_grpc.send(each, framed(asked.SerializeToString()))
        stream += 2
    for each in (*calls, *streams):
        each.close()


def unparsable(attack: Attack) -> None:
    """Requests that are none, as fast as it goes: to every method, and as every other protocol."""
    garbage = (b"\xff\xff\xff\xff", b"\x0a\xff\xff\xff\xff\x0f", os.urandom(64))
    methods = ("GetKvState", "BatchGetKvState", "ScanKvState", "ListStates", "NoSuchMethod")
    first = (
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(64),
        raw_grpc.opening() + b"\xff" * 64,
        raw_grpc.opening() + raw_grpc.frame(1, 4, 1, b"\xff" * 32),
        PREAMBLE + framed(b"\xff\xff\xff"),
        PREAMBLE + framed(client_hello("t")) + framed(b"\xff\xff\xff"),
        os.urandom(64),
    )
    with contextlib.ExitStack() as stack:
        channels = [
            stack.enter_context(grpc.insecure_channel(address))
            for address in (*attack.public, *attack.internal)
        ]
        while attack.goes_on():
            for channel in channels:
                for method in methods:
                    for request in garbage:
                        attack.called(channel, f"{_SERVICE}/{method}", request, 5.0)
            for address in (*attack.public, *attack.internal, *attack.frames):
                for data in first:
                    with contextlib.suppress(OSError), raw_grpc.connected(address) as opened:
                        raw_grpc.send(opened, data)
                        opened.settimeout(0.005)
                        opened.recv(4096)


def slow_connections(attack: Attack) -> None:
    """Hundreds of connections that say nothing, or one byte at a time."""
    every = [*attack.public, *attack.internal, *attack.frames]
    opened = [each for _ in range(4) for each in attack.sockets(every)]
    for data in (PREAMBLE[:3], raw_grpc.opening()[:10]):
        for each in opened[::2]:
            raw_grpc.send(each, data[:1])
    while attack.goes_on():
        time.sleep(0.05)
    for each in opened:
        each.close()


def unknown_names(attack: Attack) -> None:
    """States that nobody has, as fast as it goes, with names of every length."""
    with contextlib.ExitStack() as stack:
        channels = [
            stack.enter_context(grpc.insecure_channel(address)) for address in attack.public
        ]
        number = 0
        while attack.goes_on():
            number += 1
            for channel in channels:
                name = "x" * (number % 2000)
                request = query_pb2.GetKvStateRequest(job=name, state_name=f"{number}{name}")
                attack.called(channel, f"{_SERVICE}/GetKvState", request.SerializeToString(), 5.0)


def _state_id(address: str, job: str, state: str) -> int:
    with grpc.insecure_channel(address) as channel:
        located: Any = channel.unary_unary(
            f"{_SERVICE}/LocateState",
            request_serializer=query_pb2.LocateStateRequest.SerializeToString,
            response_deserializer=query_pb2.LocateStateResponse.FromString,
        )(query_pb2.LocateStateRequest(job=job, state_name=state), timeout=5)
    found: int = located.location.registration.state_id
    return found


def frame_port(address: str) -> str:
    """HOST:PORT of the frames of the server at an address."""
    with grpc.insecure_channel(address) as channel:
        stub: Any = query_pb2_grpc.QueryableStateStub(channel)
        described = stub.DescribeServer(query_pb2.DescribeServerRequest(), timeout=20)
    return f"{address.rpartition(':')[0]}:{described.frames.port}"


def nothing(attack: Attack) -> None:
    """No attack: what its process and the machine cost."""
    while attack.goes_on():
        time.sleep(0.05)


ATTACKS: dict[str, Callable[[Attack], None]] = {
    each.__name__: each
    for each in (
        many_keys_json,
        many_runs,
        long_json_key,
        large_answers_in_json,
        partial_frames,
        partial_calls,
        without_secret,
        unread_answers,
        unparsable,
        slow_connections,
        unknown_names,
    )
}


CONTROL = nothing.__name__


def main() -> None:
    """Runs one attack, and tells what was answered."""
    name, seconds, targets = sys.argv[1:]
    attack = Attack(seconds=float(seconds), **json.loads(targets))
    ATTACKS.get(name, nothing)(attack)
    sys.stdout.write(json.dumps(attack.answers) + "\n")


if __name__ == "__main__":
    main()
