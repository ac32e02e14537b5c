"""Attacks by connections: requests that never end, answers that are never read."""

from __future__ import annotations

import time

from tests.hostile import raw_grpc
from tests.hostile.attack import KEYS, SERVICE, Attack

from queryable_state.v1 import query_pb2
from queryable_state.wire.frames.framed_stream import PREAMBLE, framed


def partial_frames(attack: Attack) -> None:
    """Frames of 63 MiB begun before any hello; then the largest ones that are taken, after it."""
    before = list(attack.sockets(attack.frames))
    piece = b"x" * (256 * 1024)
    for each in before:
        raw_grpc.send(each, PREAMBLE + (63 << 20).to_bytes(4, "big"))
    after = list(attack.sockets(attack.frames))
    for each in after:
        raw_grpc.send(each, attack.hello + (4 << 20).to_bytes(4, "big"))
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
            call = raw_grpc.headers(f"{SERVICE}/BatchGetKvState", stream, attack.authorization)
            begun = raw_grpc.message(b"x" * 60_000, stream, announced=4 << 20)
            raw_grpc.send(each, call + begun)
        stream += 2
    for each in opened:
        each.close()


def unread_answers(attack: Attack) -> None:
    """512 keys of 10,000 bytes each, asked for again and again; nothing is read."""
    keys = [KEYS.wire_key(f"sensor_{number % 64}") for number in range(512)]
    batch = query_pb2.BatchGetKvStateRequest(job=attack.job, state_name=attack.large, keys=keys)
    request = batch.SerializeToString()
    calls = list(attack.sockets(attack.public))
    for each in calls:
        raw_grpc.send(each, raw_grpc.opening())
    query = query_pb2.Query(state_id=attack.large_id, keys=keys)
    streams = list(attack.sockets(attack.frames))
    for each in streams:
        raw_grpc.send(each, attack.hello)
    stream = 1
    while attack.goes_on():
        for each in calls:
            call = raw_grpc.headers(f"{SERVICE}/BatchGetKvState", stream, attack.authorization)
            raw_grpc.send(each, call + raw_grpc.message(request, stream))
        for each in streams:
            query.id = stream
            asked = query_pb2.ClientFrame(query=query)
            raw_grpc.send(each, framed(asked.SerializeToString()))
        stream += 2
    for each in (*calls, *streams):
        each.close()


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
