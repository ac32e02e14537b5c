"""A stream of queries as the gRPC call `StreamKvState`, its frames as raw bytes."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from queryable_state.wire.errors import QueryableStateError, Reason, RetryLaterError
from queryable_state.wire.frames.stream_hello import client_hello, gone, server_hello
from queryable_state.wire.status import error_from_call

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.v1 import query_pb2

_BROKEN = (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.ABORTED)

_METHOD = "/queryable_state.v1.QueryableState/StreamKvState"


def is_being_cancelled() -> bool:
    """Whether it is the current task that was cancelled, and not a call it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


_Call = grpc.aio.StreamStreamCall[bytes, bytes]


async def open_call(
    channel: grpc.aio.Channel, address: str, *, client: str, timeout_s: float
) -> tuple[_Call, query_pb2.ServerHello]:
    """Says hello, and returns the call once the server did.

    Raises the server's refusal, or `RetryLaterError` where none answers at the
    address within `timeout_s`.
    """
    method: Any = channel.stream_stream(_METHOD)
    call: _Call = method()
    try:
        async with asyncio.timeout(timeout_s):
            return call, await _greet(call, address, client)
    except TimeoutError:
        call.cancel()
        raise RetryLaterError(
            f"{address} did not answer within {timeout_s:g} s", retry_after_ms=100
        ) from None
    except BaseException:
        call.cancel()
        raise


class GrpcStream:
    """One call that `open_call` opened; a `SlowStream`."""

    transport = "grpc"

    def __init__(
        self,
        call: _Call,
        address: str,
        hello: query_pb2.ServerHello,
        *,
        on_frame: Callable[[bytes], None],
        on_end: Callable[[QueryableStateError], None],
    ) -> None:
        self.hello = hello
        self._call = call
        self._address = address
        self._on_frame = on_frame
        self._on_end = on_end
        self._outbox: deque[bytes] = deque()
        self._wake: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._ended = False
        self._finishing = False
        # Let go of at the end: a cancelled task keeps what it was at, and with it the connection,
        # until the next garbage collection.
        self._tasks: tuple[asyncio.Task[None], ...] = (
            self._loop.create_task(self._read()),
            self._loop.create_task(self._write()),
        )

    def send(self, frame: bytes) -> None:
        """Sends a serialized `StreamKvStateRequest` after those before it; never blocks."""
        self._outbox.append(frame)
        self._wake_writer()

    def finish(self) -> None:
        """Sends nothing more; the stream ends, without a word to `on_end`, when all is answered."""
        self._finishing = True
        self._wake_writer()

    async def aclose(self) -> None:
        """Cancels the call and waits until nothing of it runs."""
        self._ended = True
        tasks = self._release()
        self._call.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _wake_writer(self) -> None:
        wake, self._wake = self._wake, None
        if wake is not None and not wake.done():
            wake.set_result(None)

    def _release(self) -> list[asyncio.Task[None]]:
        """Cancels the tasks but the current one."""
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        self._tasks = ()
        for task in tasks:
            task.cancel()
        return tasks

    def _end(self, error: QueryableStateError) -> None:
        if not self._ended:
            self._ended = True
            self._release()
            self._call.cancel()
            self._on_end(error)

    async def _read(self) -> None:
        read, on_frame = self._call.read, self._on_frame
        try:
            while True:
                frame = await read()
                if frame is grpc.aio.EOF:
                    break
                on_frame(frame)  # type: ignore[arg-type]
        except asyncio.CancelledError:
            if is_being_cancelled():
                raise
            # The call was cancelled, not this task: its channel is closed.
        except grpc.aio.AioRpcError as failure:
            self._end(_translated(failure, self._address))
            return
        except QueryableStateError as error:
            self._end(error)
            return
        if self._finishing:
            self._ended = True
            self._release()
        else:
            self._end(gone(self._address, "ended the stream"))

    async def _write(self) -> None:
        write, outbox = self._call.write, self._outbox
        try:
            while True:
                while outbox:
                    await write(outbox.popleft())
                if self._finishing:
                    await self._call.done_writing()
                    return
                self._wake = self._loop.create_future()
                await self._wake
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError, grpc.aio.UsageError):
            # The stream ended beneath the write. The reader has the reason.
            pass


async def _greet(call: _Call, address: str, client: str) -> query_pb2.ServerHello:
    try:
        try:
            await call.write(client_hello(client))
        except asyncio.InvalidStateError:
            # The call failed before the write; reading tells why.
            pass
        frame: Any = await call.read()
    except grpc.aio.AioRpcError as failure:
        raise _translated(failure, address) from failure
    if frame is grpc.aio.EOF:
        raise gone(address, "ended the stream before its hello")
    return server_hello(frame, address)


def _translated(failure: grpc.aio.AioRpcError, address: str) -> QueryableStateError:
    error = error_from_call(failure, address)
    if error.reason == Reason.INTERNAL and failure.code() in _BROKEN:
        # A write into a connection that breaks ends the call so, before its reader sees the end.
        return gone(address, f"broke the stream ({failure.details()})")
    return error
