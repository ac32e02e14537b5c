"""gRPC channels from this worker process to state servers, shared by its tasks."""

from __future__ import annotations

import os
import threading

import grpc

from queryable_state.internal.v1.backend_pb2_grpc import StateBackendStub
from queryable_state.wire.calls.channel_options import channel_options

_lock = threading.Lock()
# The key contains the process id: a channel does not survive a fork.
_stubs: dict[tuple[int, str], tuple[grpc.Channel, StateBackendStub]] = {}


def backend_stub(address: str) -> StateBackendStub:
    """The stub of the state server at HOST:PORT."""
    key = (os.getpid(), address)
    with _lock:
        found = _stubs.get(key)
        if found is None:
            channel = grpc.insecure_channel(address, channel_options())
            found = _stubs[key] = (channel, StateBackendStub(channel))
    return found[1]


def forget(address: str) -> None:
    """Closes the channel to a server that is gone. Idempotent."""
    with _lock:
        found = _stubs.pop((os.getpid(), address), None)
    if found is not None:
        found[0].close()


def close_all() -> None:
    """Closes the channels of this process."""
    for pid, address in list(_stubs):
        if pid == os.getpid():
            forget(address)
