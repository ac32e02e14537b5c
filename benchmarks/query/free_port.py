"""A port for a server that cannot choose one and say which."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A local TCP port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
