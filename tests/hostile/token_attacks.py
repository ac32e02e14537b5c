"""Attacks on authentication, and messages that are nearly right."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import grpc
from tests.hostile import raw_grpc
from tests.hostile.attack import KEYS, SERVICE

from queryable_state.v1 import query_pb2
from queryable_state.wire.frames.framed_stream import PREAMBLE, framed
from queryable_state.wire.frames.stream_hello import client_hello

if TYPE_CHECKING:
    from tests.hostile.attack import Attack

_KEY = KEYS.wire_key("sensor_1")
_METHODS = (
    "GetKvState",
    "BatchGetKvState",
    "ScanKvState",
    "MeasureState",
    "ListHotKeys",
    "LocateState",
    "DescribeServer",
    "ListJobs",
    "ListStates",
    "DescribeJob",
    "ListServers",
)


def _jwt(algorithm: str, signature: bytes) -> str:
    parts = (
        json.dumps({"alg": algorithm, "kid": os.urandom(8).hex()}).encode(),
        json.dumps({"sub": "alice", "exp": 1 << 40, "iss": "x", "aud": "y"}).encode(),
        signature,
    )
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


def _forged() -> list[str]:
    """Authorizations that no server accepts."""
    return [
        f"Bearer qst_{os.urandom(24).hex()}",
        f"Bearer {'x' * 3500}",
        f"Bearer {_jwt('RS256', os.urandom(256))}",
        f"Bearer {_jwt('none', b'')}",
        f"Signed 1-1 {1 << 40} {os.urandom(8).hex()} 1 {os.urandom(32).hex()}",
        "Basic dXNlcjpwYXNz",
        "Bearer",
        "Bearer \x7f",
        "\x01" * 200,
    ]


def forged_tokens(attack: Attack) -> None:
    """Tokens, JWTs and signatures that are none, as fast as it goes, in calls and hellos."""
    with contextlib.ExitStack() as stack:
        channels = [
            stack.enter_context(grpc.insecure_channel(address)) for address in attack.public
        ]
        request = query_pb2.GetKvStateRequest(
            job=attack.job, state_name=attack.state, key_json='"sensor_1"'
        ).SerializeToString()
        while attack.goes_on():
            for authorization in _forged():
                for channel in channels:
                    attack.called_as(channel, f"{SERVICE}/GetKvState", request, authorization)
                for address in attack.frames:
                    hello = PREAMBLE + framed(client_hello("t", authorization))
                    with contextlib.suppress(OSError), raw_grpc.connected(address) as opened:
                        raw_grpc.send(opened, hello)
                        attack.refusal(opened, timeout_s=0.05)


def large_requests_without_token(attack: Attack) -> None:
    """Requests of 4 MiB by callers who are not known: they need not be read."""
    opened = list(attack.sockets(attack.public))
    for each in opened:
        raw_grpc.send(each, raw_grpc.opening())
    data, stream = attack.named + b"\x1a\x00" * (2 * 1024 * 1024 - 1000), 1
    while attack.goes_on():
        for each in opened:
            call = raw_grpc.headers(f"{SERVICE}/BatchGetKvState", stream, "Bearer qst_none")
            raw_grpc.send(each, call + raw_grpc.message(data, stream))
        stream += 2
    for each in opened:
        each.close()


def fuzzed(attack: Attack) -> None:
    """Valid requests with some bytes changed, cut or doubled, to all public ports at a time."""
    requests = [
        query_pb2.GetKvStateRequest(
            job=attack.job, state_name=attack.state, key_json='"sensor_1"', explain=True
        ),
        query_pb2.BatchGetKvStateRequest(
            job=attack.job, state_name=attack.entries, keys=[_KEY], read=query_pb2.PREFIX
        ),
        query_pb2.BatchGetKvStateRequest(query=_query(attack)),
        query_pb2.ScanKvStateRequest(
            job=attack.job, state_name=attack.state, limit=5, start_json='"a"', json=True
        ),
        query_pb2.LocateStateRequest(job=attack.job, state_name=attack.state, newer_than=1),
    ]
    texts = [request.SerializeToString() for request in requests]
    targets = [(_fuzzed_calls, address) for address in attack.public]
    targets += [(_fuzzed_frames, address) for address in attack.frames]
    attacks = [replace(attack, answers=Counter()) for _ in targets]
    with ThreadPoolExecutor(len(targets)) as threads:
        started = [
            threads.submit(target, each, address, texts)
            for each, (target, address) in zip(attacks, targets, strict=True)
        ]
    for each, ended in zip(attacks, started, strict=True):
        ended.result()
        attack.answers.update(each.answers)


def _query(attack: Attack) -> query_pb2.Query:
    return query_pb2.Query(id=1, state_id=attack.large_id, keys=[_KEY] * 3, deadline_ms=500)


def _fuzzed_calls(attack: Attack, address: str, texts: list[bytes]) -> None:
    chance = random.Random(os.urandom(8))
    with grpc.insecure_channel(address) as channel:
        while attack.goes_on():
            method = f"{SERVICE}/{chance.choice(_METHODS)}"
            attack.called(channel, method, _changed(chance, chance.choice(texts)), 2.0)


def _fuzzed_frames(attack: Attack, address: str, texts: list[bytes]) -> None:
    chance = random.Random(os.urandom(8))
    query = query_pb2.ClientFrame(query=_query(attack)).SerializeToString()
    frames = [query, query, *texts]
    while attack.goes_on():
        with contextlib.suppress(OSError), raw_grpc.connected(address) as opened:
            hello = attack.hello if chance.random() < 0.8 else _changed(chance, attack.hello)
            sent = [framed(_changed(chance, chance.choice(frames))) for _ in range(20)]
            raw_grpc.send(opened, hello + b"".join(sent))
            attack.answers["connections"] += 1
            attack.refusal(opened, timeout_s=0.02)


def _changed(chance: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.randrange(4)):
        if not changed:
            break
        at = chance.randrange(len(changed))
        kind = chance.randrange(4)
        if kind == 0:
            changed[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del changed[at : at + chance.randrange(8)]
        elif kind == 2:
            changed[at:at] = changed[at : at + chance.randrange(64)] * chance.randrange(4)
        else:
            changed[at:at] = chance.randbytes(chance.randrange(16))
    return bytes(changed)
