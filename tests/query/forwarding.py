"""Ports of another address that lead to ports of 127.0.0.1, as a firewall lets some through."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import logging
import socket
from typing import TYPE_CHECKING

from tests.waiting import DEADLINE_S

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    import pytest


ELSEWHERE = "127.0.0.2"
"""Another address of this machine, where none of our servers listens."""


@contextlib.asynccontextmanager
async def forwarded(host: str, port: int, *to: int) -> AsyncIterator[str]:
    """HOST:PORT whose connections lead to ports of 127.0.0.1 in turn, and are cut at the end."""
    turns = itertools.cycle(to)

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    opened: set[asyncio.StreamWriter] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", next(turns))
        opened.update((writer, there_writer))
        await asyncio.gather(pipe(reader, there_writer), pipe(there_reader, writer))

    async with await listening(connected, host, port) as server:
        try:
            yield f"{host}:{server.sockets[0].getsockname()[1]}"
        finally:
            for each in opened:
                each.transport.abort()


async def listening(
    connected: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    host: str,
    port: int,
) -> asyncio.Server:
    """A server at a port, which a process beside this one may have been lent for a moment."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                return await asyncio.start_server(connected, host, port)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                await asyncio.sleep(0.05)


def free_ports(number: int) -> list[int]:
    """Ports that nobody has now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def warnings_of_frame_ports(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.message
        for record in caplog.records
        if record.levelno == logging.WARNING and "its frame port" in record.message
    ]
