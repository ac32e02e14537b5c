"""Look whether any process listens at an address, and whether it is a web server."""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import TYPE_CHECKING, Any

from queryable_state.wire.addresses import host_and_port
from queryable_state.wire.errors import RetryLaterError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from queryable_state.wire.security.connector import Connector

_TIMEOUT_S = 1.0
# How each answer of HTTP/1 begins; gRPC answers with frames of HTTP/2.
_HTTP = b"HTTP/1."

# The name server knows no such name; other failures of a look-up may pass.
_UNKNOWN_NAME = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))


class NothingListensError(RetryLaterError):
    """Check the address, or start the server: no process listens there. Not retried by itself."""


async def nothing_listens(addresses: Iterable[str]) -> str:
    """Says why nothing can answer at any HOST:PORT; empty if something may answer at one.

    Only what the machine at the other end says counts: a refused connection, or a host name that
    does not exist. An address that is silent may answer later.
    """
    problems = await asyncio.gather(*map(_problem, addresses))
    return "" if "" in problems else ", ".join(dict.fromkeys(problems))


async def speaks_http(address: str, connector: Connector) -> bool:
    """True if a web server, not a gRPC server, listens at HOST:PORT."""
    host, port = host_and_port(address)
    context = connector.probing_context()
    name = None if context is None else connector.server_name(host)
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(
                host, port, ssl=context, server_hostname=name
            )
            try:
                writer.write(b"GET / HTTP/1.0\r\n\r\n")
                return await reader.read(len(_HTTP)) == _HTTP
            finally:
                writer.transport.abort()
    except (OSError, TimeoutError):
        return False


async def _problem(address: str) -> str:
    host, port = host_and_port(address)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            refused = [
                await _refuses(family, kind, protocol, at)
                for family, kind, protocol, _, at in found
            ]
    except socket.gaierror as unknown:
        return f"the host name {host!r} does not exist" if unknown.errno in _UNKNOWN_NAME else ""
    except (OSError, TimeoutError):
        return ""
    return "connection refused" if all(refused) else ""


async def _refuses(family: int, kind: int, protocol: int, address: tuple[Any, ...]) -> bool:
    with socket.socket(family, kind, protocol) as probe:
        probe.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(probe, address)
        except ConnectionRefusedError:
            return True
        except OSError as failure:
            # An IPv6 address of a name, on a machine without IPv6.
            if failure.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.ENETUNREACH):
                return True
            raise
        return False
