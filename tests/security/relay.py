"""A TCP relay that keeps the bytes of both directions."""

from __future__ import annotations

import asyncio
from typing import Self

from queryable_state.wire.addresses import host_and_port


class Relay:
    """Listens on a port of its own and relays every connection to one address."""

    def __init__(self, target: str) -> None:
        self._target = host_and_port(target)
        self.bytes = bytearray()
        """Everything that passed."""
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        """HOST:PORT of the relay."""
        port: int = self._server.sockets[0].getsockname()[1]
        return f"127.0.0.1:{port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection(*self._target)
        for source, target in ((reader, there[1]), (there[0], writer)):
            task = asyncio.create_task(self._pass(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                self.bytes += data
                target.write(data)
                await target.drain()
        except ConnectionError:
            pass
        finally:
            target.close()
