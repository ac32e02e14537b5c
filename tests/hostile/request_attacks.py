"""Attacks by single requests: too large, too many, unauthorized, unparsable."""

from __future__ import annotations

import contextlib
import os

import grpc
from tests.hostile import raw_grpc
from tests.hostile.attack import KEYS, SERVICE, Attack

from queryable_state.v1 import query_pb2
from queryable_state.wire.frames.framed_stream import PREAMBLE, framed


def many_keys_json(attack: Attack) -> None:
    """11 million keys in one request of 52 MiB; and as many as one request may have bytes for."""
    huge = attack.named + b'\x4a\x03"a"' * (52 * 1024 * 1024 // 5)
    many = attack.named + b"\x4a\x00" * (2 * 1024 * 1024 - 1000)
    keys = attack.named + b"\x1a\x00" * (2 * 1024 * 1024 - 1000)
    legal = attack.named + (b"\x4a\x80\x06" + b'"' + b"\xc3\xa9" * 383 + b'"') * 4096
    while attack.goes_on():
        for address in attack.public:
            for request in (many, keys, legal, huge):
                attack.call(address, f"{SERVICE}/BatchGetKvState", request)


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
                attack.call(address, f"{SERVICE}/ScanKvState", request)


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
                attack.call(address, f"{SERVICE}/GetKvState", request)


def large_answers_in_json(attack: Attack) -> None:
    """Legal requests for much: a map of 20,000 entries, and every large value, as JSON."""
    one = query_pb2.GetKvStateRequest(
        job=attack.job, state_name=attack.entries, key_json='"sensor_1"'
    )
    many = query_pb2.BatchGetKvStateRequest(
        job=attack.job, state_name=attack.entries, keys_json=['"sensor_1"'] * 4096
    )
    encoded = query_pb2.BatchGetKvStateRequest(
        job=attack.job, state_name=attack.entries, keys=[KEYS.wire_key("sensor_1")] * 4096
    )
    while attack.goes_on():
        for address in attack.public:
            for method, request in (
                ("GetKvState", one),
                ("BatchGetKvState", many),
                ("BatchGetKvState", encoded),
            ):
                attack.call(address, f"{SERVICE}/{method}", request.SerializeToString())


def flood(attack: Attack) -> None:
    """Legal look-ups on many connections, as fast as they are answered."""
    keys = [KEYS.wire_key(f"sensor_{number}") for number in range(64)]
    query = query_pb2.Query(state_id=attack.large_id, keys=keys, deadline_ms=5_000)
    burst = b""
    for number in range(32):
        query.id = number + 1
        burst += framed(query_pb2.ClientFrame(query=query).SerializeToString())
    opened = list(attack.sockets(attack.frames))
    for each in opened:
        raw_grpc.send(each, attack.hello)
    while attack.goes_on():
        for each in opened:
            raw_grpc.send(each, burst)
        for each in opened:
            with contextlib.suppress(OSError):
                attack.answers["bytes"] += len(each.recv(1 << 20))
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
        attack.hello + framed(b"\xff\xff\xff"),
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
                        attack.called(channel, f"{SERVICE}/{method}", request, 5.0)
            for address in (*attack.public, *attack.internal, *attack.frames):
                for data in first:
                    with contextlib.suppress(OSError), raw_grpc.connected(address) as opened:
                        raw_grpc.send(opened, data)
                        opened.settimeout(0.005)
                        opened.recv(4096)


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
                attack.called(channel, f"{SERVICE}/GetKvState", request.SerializeToString(), 5.0)
