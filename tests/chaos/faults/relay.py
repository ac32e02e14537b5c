"""A TCP relay in front of the coordinator: state servers can be cut off from it, or held up."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Self

import psutil

from queryable_state.wire.calls.loop_thread import LoopThread

if TYPE_CHECKING:
    from collections.abc import Coroutine


class Relay:
    """Listens on one address and passes every byte on to another, from a thread of its own.

    Who is cut off is told by process: its connections end, and new ones end as they are made.
    Who is held up keeps its connections, on which nothing moves until it is released.
    """

    def __init__(self, listen: tuple[str, int], target: tuple[str, int]) -> None:
        self._listen = listen
        self._target = target
        self._thread = LoopThread("chaos relay")
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[None], int] = {}
        self._cut_off: int | None = None
        self._held_up: int | None = None
        self._released = asyncio.Event()
        self._released.set()

    @property
    def port(self) -> int:
        """Where it listens, once entered."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    def cut_off(self, pid: int | None) -> None:
        """Ends the connections of a process, and those it makes from now on; None: of nobody."""
        self._run(self._set(cut_off=pid, held_up=None))

    def hold_up(self, pid: int | None) -> None:
        """Passes nothing on for a process from now on; None: passes on what was held, too."""
        self._run(self._set(cut_off=None, held_up=pid))

    def __enter__(self) -> Self:
        self._run(self._start())
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._run(self._stop())
        self._thread.stop()

    def _run(self, coroutine: Coroutine[object, object, None]) -> None:
        self._thread.run(coroutine, timeout_s=10)

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._connected, *self._listen)

    async def _stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _set(self, *, cut_off: int | None, held_up: int | None) -> None:
        self._cut_off, self._held_up = cut_off, held_up
        if held_up is None:
            self._released.set()
        else:
            self._released.clear()
        if cut_off is not None:
            ports = _local_ports(cut_off)
            for task, port in list(self._open.items()):
                if port in ports:
                    task.cancel()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        port = int(writer.get_extra_info("peername")[1])
        self._open[task] = port
        onward: asyncio.StreamWriter | None = None
        try:
            if self._cut_off is not None and port in _local_ports(self._cut_off):
                return
            back, onward = await asyncio.open_connection(*self._target)
            await asyncio.gather(
                self._pass_on(reader, onward, port), self._pass_on(back, writer, port)
            )
        except (OSError, asyncio.CancelledError):
            # One side is gone, or the relay ended the connection.
            pass
        finally:
            del self._open[task]
            for end in (writer, onward):
                if end is not None:
                    end.transport.abort()

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int
    ) -> None:
        while data := await reader.read(65536):
            while self._held_up is not None and port in _local_ports(self._held_up):
                await self._released.wait()
            writer.write(data)
            await writer.drain()
        with contextlib.suppress(OSError):
            writer.write_eof()


def _local_ports(pid: int) -> set[int]:
    """Ports the connections of a process come from."""
    try:
        connections = psutil.Process(pid).net_connections(kind="tcp")
    except psutil.Error:
        return set()
    return {connection.laddr.port for connection in connections}
