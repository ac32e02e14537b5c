"""Server side of one call."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, NoReturn

import grpc
import grpc.aio

from queryable_state.server.grpc_core.core import cygrpc
from queryable_state.server.grpc_core.unsent_answers import TAKES_TOO_LITTLE
from queryable_state.server.grpc_requests import parsed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from queryable_state.server.grpc_core.completions import Completions
    from queryable_state.server.grpc_core.incomplete_requests import IncompleteRequests
    from queryable_state.server.grpc_core.unsent_answers import UnsentAnswers
    from queryable_state.server.security.access.caller import Caller

    Metadata = Sequence[tuple[str, str | bytes]]

_NO_FLAGS = 0

# The core represents "no deadline" by 2**63 seconds; the longest timeout of a client is 2**39.
_NEVER_S = 2.0**62


class ServerCall:
    """The context of a servicer: the part of `grpc.aio`'s context that our servicers use.

    For the event loop only. Ending the call drops the core's call, because the core shuts down
    only after all of them are freed.
    """

    def __init__(
        self,
        event: Any,
        completions: Completions,
        incomplete: IncompleteRequests,
        unsent: UnsentAnswers,
    ) -> None:
        details = event.call_details
        self.method: str = details.method.decode()
        self.request: bytes = b""
        """The request; empty for a client stream, whose messages are read later."""
        self.handler: grpc.RpcMethodHandler[Any, Any] | None = None
        self.caller: Caller | None = None
        """The authenticated caller; None: the server authenticates nobody."""
        self.task: asyncio.Task[None] | None = None
        """The task that answers the call; cancelled if the client cancels or its deadline ends."""
        self._metadata: Metadata = event.invocation_metadata
        self._deadline: float = details.deadline
        self._call: Any = event.call
        self._peer: str | None = None
        self._incomplete = incomplete
        self._unsent = unsent
        self._completions = completions
        self._metadata_sent = False

    @property
    def peer(self) -> str:
        """The core's name of the client's connection; valid until the call has ended."""
        if self._peer is None:
            self._peer = self._call.peer()
        return self._peer

    def may_be_answered(self, size_bytes: int = 0) -> bool:
        """True if the client reads its answers, so that one of this size may be sent."""
        return self._call is None or self._unsent.may_add(self.peer, size_bytes)

    def invocation_metadata(self) -> Metadata:
        """Returns the metadata of the request."""
        return self._metadata

    def time_remaining(self) -> float | None:
        """Returns the seconds until the deadline; None if there is none."""
        return None if self._deadline > _NEVER_S else max(0.0, self._deadline - time.time())

    async def send_initial_metadata(self, metadata: Metadata) -> None:
        """Sends the initial metadata."""
        self._metadata_sent = True
        await self._done(cygrpc.SendInitialMetadataOperation(tuple(metadata), _NO_FLAGS))

    async def read(self) -> Any:
        """Returns the next request, or `grpc.aio.EOF`; one read at a time."""
        operation = cygrpc.ReceiveMessageOperation(_NO_FLAGS)
        await self._done(operation)
        message = operation.message()
        if message is None:
            return grpc.aio.EOF
        return self.deserialized(message)

    async def requests(self) -> AsyncIterator[Any]:
        """Yields every request until the client ends its side."""
        while (request := await self.read()) is not grpc.aio.EOF:
            yield request

    async def write(self, message: Any) -> None:
        """Sends a message with flow control; one write at a time.

        Raises `grpc.aio.UsageError` if the call has ended.
        """
        data = self.serialized(message)
        if self._call is None:
            raise grpc.aio.UsageError(f"the call of {self.method} has ended")
        if not self.may_be_answered(len(data)):
            await self.abort(*TAKES_TOO_LITTLE)
        peer, size_bytes = self.peer, len(data)
        entry = self._unsent.add(peer, self._call, size_bytes)
        try:
            await self._done(
                *self._initial_metadata(), cygrpc.SendMessageOperation(data, _NO_FLAGS)
            )
        finally:
            self._unsent.discard(peer, entry, size_bytes)

    async def abort(
        self, code: grpc.StatusCode, details: str = "", trailing_metadata: Metadata = ()
    ) -> NoReturn:
        """Ends the call with a status and raises `grpc.aio.AbortError`."""
        self.end(code, details, trailing_metadata)
        raise grpc.aio.AbortError("the call was aborted")

    def end(
        self,
        code: grpc.StatusCode = grpc.StatusCode.OK,
        details: str = "",
        trailing_metadata: Metadata = (),
        *,
        response: bytes | None = None,
    ) -> None:
        """Sends the response, if any, and the status; does nothing once the call has ended."""
        if self._call is None:
            return
        if response is not None and not self.may_be_answered(len(response)):
            code, details, trailing_metadata = TAKES_TOO_LITTLE
            response = None
        sent: Callable[[Any], None] = _ignore
        operations = [*self._initial_metadata()]
        if response is not None:
            operations.append(cygrpc.SendMessageOperation(response, _NO_FLAGS))
            sent = self._counted(len(response))
        operations.append(
            cygrpc.SendStatusFromServerOperation(
                tuple(trailing_metadata), code.value[0], details.encode(), _NO_FLAGS
            )
        )
        try:
            self._begin(operations, sent)
        except grpc.aio.UsageError:
            sent(None)
        self._call = None

    def watch(self) -> None:
        """Cancels the task once the client is gone; does nothing once the call has ended."""
        if self._call is not None:
            self._begin([cygrpc.ReceiveCloseOnServerOperation(_NO_FLAGS)], self._on_closed)

    def receive_request(self, begin: Callable[[ServerCall], None]) -> None:
        """Makes the loop call `begin` once the request is complete. Thread-safe."""
        waiting, incomplete = self._call, self._incomplete

        def received(event: Any) -> None:
            incomplete.discard(waiting)
            message = event.batch_operations[0].message()
            # None if the client cancelled before.
            if message is not None:
                self.request = message
                self._completions.hand(begin, self)

        incomplete.add(waiting)
        self._begin([cygrpc.ReceiveMessageOperation(_NO_FLAGS)], received)

    def deserialized(self, message: bytes) -> Any:
        """Deserializes a request; raises `InvalidRequestError` if it is malformed."""
        return parsed(self.handler, self.method, message)

    def serialized(self, message: Any) -> bytes:
        """Serializes a response."""
        serialize = self.handler and self.handler.response_serializer
        return serialize(message) if serialize else message

    def _counted(self, size_bytes: int) -> Callable[[Any], None]:
        """Counts an unsent answer; returns the function that uncounts it, on any thread."""
        unsent, peer = self._unsent, self.peer
        entry = unsent.add(peer, self._call, size_bytes)

        def sent(_event: Any) -> None:
            unsent.discard(peer, entry, size_bytes)

        return sent

    def _initial_metadata(self) -> tuple[Any, ...]:
        if self._metadata_sent:
            return ()
        self._metadata_sent = True
        return (cygrpc.SendInitialMetadataOperation((), _NO_FLAGS),)

    def _begin(self, operations: Sequence[Any], tag: Callable[[Any], None]) -> None:
        """Starts operations; raises `grpc.aio.UsageError` if the call has ended."""
        if self._call is None or self._call.start_server_batch(tuple(operations), tag):
            raise grpc.aio.UsageError(f"the call of {self.method} has ended")

    async def _done(self, *operations: Any) -> None:
        """Starts operations and waits for them."""
        done = asyncio.get_running_loop().create_future()

        def settle(success: bool) -> None:
            if not done.done():
                done.set_result(success)

        self._begin(operations, lambda event: self._completions.hand(settle, event.success))
        if not await done:
            raise grpc.aio.UsageError(f"the call of {self.method} has ended")

    def _on_closed(self, _event: Any) -> None:
        self._completions.hand(ServerCall._close, self)

    def _close(self) -> None:
        if self._call is not None:
            self._call = None
            if self.task is not None:
                self.task.cancel()


def _ignore(_event: Any) -> None:
    """Ignores the completion of an operation."""
