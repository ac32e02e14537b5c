"""Sockets of a port of this process: its listener and the connections of clients."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from pathlib import Path

_INTERNET = (socket.AF_INET, socket.AF_INET6)


def close_port(port: int) -> None:
    """Shuts the listener of a port down, then every connection to it.

    The calls on them fail as UNAVAILABLE, which clients send again. gRPC's core would fail those
    that arrive while it shuts down as CANCELLED, which they do not. Without `/proc` it does
    nothing.
    """
    found: list[tuple[bool, socket.socket]] = []
    with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
        for entry in list(Path("/proc/self/fd").iterdir()):
            # It may be closed meanwhile.
            with contextlib.suppress(OSError):
                fd = int(entry.name)
                if not stat.S_ISSOCK(os.fstat(fd).st_mode):
                    continue
                # A copy, because the object closes what it is made of.
                one = stack.enter_context(socket.socket(fileno=os.dup(fd)))
                if _is_of(one, port):
                    found.append((not one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN), one))
        # The listeners first: a client that loses its connection opens another at once.
        for _, one in sorted(found, key=lambda each: each[0]):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


def _is_of(one: socket.socket, port: int) -> bool:
    return (
        one.family in _INTERNET and one.type == socket.SOCK_STREAM and one.getsockname()[1] == port
    )
