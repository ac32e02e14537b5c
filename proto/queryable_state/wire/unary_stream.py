"""Query stream as unary gRPC calls, for a server whose frame port is unreachable."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import QueryableStateError, Reason, RetryLaterError
from queryable_state.wire.frames.stream_hello import gone
from queryable_state.wire.security.credentialed_calls import with_credentials
from queryable_state.wire.status import error_from_call, is_refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from queryable_state.wire.frames.framed_stream import FramedStream
    from queryable_state.wire.security.authorization import Credentials

_METHOD = "/queryable_state.v1.QueryableState/BatchGetKvState"

_BROKEN = (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.ABORTED)

_NO_ROOM_MS = 20
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0


class UnaryStream:
    """A `QueryStream` with one `BatchGetKvState` call for each query, until frames work.

    `connect` opens the frame connection and raises `OSError` or `QueryableStateError` if it
    fails; None: the server has no frame port. The stream calls it in the background, with pauses
    that double. Once it succeeds, new queries use frames, and running calls are completed. Until
    then, a call that finds no server ends the stream.
    """

    def __init__(
        self,
        channel: grpc.aio.Channel,
        address: str,
        described: query_pb2.ServerDescription,
        *,
        server_id: str,
        connect: Callable[[], Awaitable[FramedStream]] | None,
        on_frame: Callable[[bytes], None],
        on_end: Callable[[QueryableStateError], None],
        credentials: Credentials | None = None,
    ) -> None:
        """`server_id`: the only server accepted; empty: any server."""
        self.server_id = described.server_id
        self.limits = described.limits
        self._address = address
        self._expected_id = server_id
        self._on_frame = on_frame
        self._on_end = on_end
        self._credentials = credentials
        self._ended = False
        self._frames: FramedStream | None = None
        self._loop = asyncio.get_running_loop()
        self._batch_get: Any = channel.unary_unary(
            _METHOD,
            request_serializer=query_pb2.BatchGetKvStateRequest.SerializeToString,
            response_deserializer=query_pb2.BatchGetKvStateResponse.FromString,
        )
        self._tasks: set[asyncio.Task[None]] = set()
        if connect is not None:
            self._run(self._switch_to_frames(connect))

    @property
    def transport(self) -> str:
        """The current transport: "unary" or "frames"."""
        return "unary" if self._frames is None else self._frames.transport

    def send(self, frame: bytes) -> None:
        """Sends a serialized `ClientFrame` of a query; never blocks."""
        if self._frames is None:
            self._run(self._call(query_pb2.ClientFrame.FromString(frame).query))
        else:
            self._frames.send(frame)

    def end(self, error: QueryableStateError) -> None:
        """Ends the stream: calls `on_end` once; `on_frame` is not called any more."""
        if not self._ended:
            self._ended = True
            self._cancel()
            self._on_end(error)

    async def aclose(self) -> None:
        """Cancels the calls and closes the frame connection. Idempotent."""
        self._ended = True
        await asyncio.gather(*self._cancel(), return_exceptions=True)
        if self._frames is not None:
            await self._frames.aclose()

    def _run(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _cancel(self) -> list[asyncio.Task[None]]:
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        return tasks

    async def _call(self, query: query_pb2.Query) -> None:
        request = query_pb2.BatchGetKvStateRequest(query=query, server_id=self._expected_id)
        timeout_s = query.deadline_ms / 1000 if query.deadline_ms else None
        try:
            answered = await with_credentials(
                self._credentials,
                _METHOD,
                lambda metadata: self._batch_get(request, timeout=timeout_s, metadata=metadata),
            )
            answers = answered.answers
        except grpc.aio.AioRpcError as failure:
            error: QueryableStateError = error_from_call(failure, self._address)
            is_broken = error.reason == Reason.UNAVAILABLE or failure.code() in _BROKEN
            if is_broken and not is_refusal(failure):
                error = gone(self._address, f"broke a call ({failure.details()})")
            elif error.reason == Reason.LIMIT_EXCEEDED and not is_refusal(failure):
                # gRPC's own status if answers have no room until others are read.
                error = RetryLaterError(
                    error.message, reason=Reason.OVERLOADED, retry_after_ms=_NO_ROOM_MS
                )
            # A refusal with this reason: another server has the address now.
            if error.reason == Reason.UNAVAILABLE and self._frames is None:
                self.end(error)
                return
            answers = [query_pb2.Answer(last=True, error=error.to_proto())]
        for answer in answers:
            answer.id = query.id
            if not self._ended:
                self._on_frame(query_pb2.ServerFrame(answer=answer).SerializeToString())

    async def _switch_to_frames(self, connect: Callable[[], Awaitable[FramedStream]]) -> None:
        pause_s = _FIRST_PAUSE_S
        while self._frames is None:
            # Jitter: not all clients reconnect at once after a server was down.
            await asyncio.sleep(pause_s * random.uniform(0.8, 1.2))
            pause_s = min(_LONGEST_PAUSE_S, 2 * pause_s)
            try:
                self._frames = await connect()
            except (OSError, QueryableStateError):
                # `connect` has logged it.
                continue
