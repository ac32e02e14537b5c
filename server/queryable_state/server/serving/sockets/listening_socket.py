"""Listening sockets of servers that asyncio serves."""

from __future__ import annotations

import socket

from queryable_state.wire.addresses import host_and_port


def listening_socket(address: str) -> socket.socket:
    """Binds HOST:PORT; `::` listens on IPv4 too. Raises `RuntimeError` if the port is in use."""
    host, port = host_and_port(address)
    try:
        family, _, _, _, where = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(
            where[:2],
            family=family,
            dualstack_ipv6=family == socket.AF_INET6 and socket.has_dualstack_ipv6(),
        )
    except OSError as problem:
        raise RuntimeError(f"cannot listen on {address}: {problem}") from problem
