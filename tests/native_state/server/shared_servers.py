"""Servers that share the two partitions of a query."""

from __future__ import annotations

import json
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from queryable_state.server.native_state.server.owners import Owners

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from queryable_state.server.native_state.server.native_server import NativeServer


def free_ports(number: int) -> list[int]:
    """Ports that are free now."""
    listeners = [socket.socket() for _ in range(number)]
    try:
        for each in listeners:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in listeners]
    finally:
        for each in listeners:
            each.close()


def sharing(partitions: int = 2) -> list[str]:
    """Addresses of two servers that each get some of the partitions."""
    while True:
        servers = [f"127.0.0.1:{port}" for port in free_ports(2)]
        owners = Owners(servers, servers[0])
        if len({owners.owner(partition) for partition in range(partitions)}) == 2:
            return servers


@asynccontextmanager
async def two_servers(
    serving: Callable[..., NativeServer],
    root: Path,
    *each: dict[str, Any],
    partitions: int = 2,
    **settings: Any,
) -> AsyncIterator[tuple[NativeServer, NativeServer]]:
    """Two servers of one query; `each`: settings of the first and of the second one."""
    servers = sharing(partitions)
    first, second = (
        serving(
            root,
            servers=tuple(servers),
            ports=address.rpartition(":")[2],
            **(settings | (each[number] if each else {})),
        )
        for number, address in enumerate(servers)
    )
    async with first, second:
        yield first, second


def json_of(key: Any) -> str:
    """The JSON of a key: rows are arrays, times are texts."""
    return json.dumps(key, default=lambda time: time.strftime("%Y-%m-%dT%H:%M:%SZ"))
