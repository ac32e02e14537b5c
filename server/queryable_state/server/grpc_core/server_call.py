"""One call of a client."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, NoReturn

import grpc
import grpc.aio

from queryable_state.server.grpc_core.core import cygrpc
from queryable_state.server.grpc_requests import parsed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from queryable_state.server.grpc_core.completions import Completions
    from queryable_state.server.grpc_core.incomplete_requests import IncompleteRequests
    from queryable_state.server.grpc_core.unsent_answers import UnsentAnswers

    Metadata = Sequence[tuple[str, str | bytes]]

_NO_FLAGS = 0

TAKES_TOO_LITTLE = (
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    "answers wait that the clients of this server have not read: read them before asking for more",
)
# The core's "never" is 2**63 seconds; the longest time a client can state is 2**39.
_NEVER_S = 2.0**62


class ServerCall:
    """What a servicer is given as its context: the part of `grpc.aio`'s that servicers here use.

    On the event loop only. Whoever ends the call drops the core's: a server is not down before
    every one of them is gone.
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
        """The first message; of a stream of them none is read yet."""
        self.handler: grpc.RpcMethodHandler[Any, Any] | None = None
        self.task: asyncio.Task[None] | None = None
        """What answers it, cancelled when the client gives up or its deadline has passed."""
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
        """The client's connection, as the core names it; only until the call has ended."""
        if self._peer is None:
            self._peer = self._call.peer()
        return self._peer

    def may_be_answered(self, size_bytes: int = 0) -> bool:
        """Whether its client takes its answers, so that there is room for one of this size."""
        return self._call is None or self._unsent.may_add(self.peer, size_bytes)

    def invocation_metadata(self) -> Metadata:
        """What the client sent before its request."""
        return self._metadata

    def time_remaining(self) -> float | None:
        """Seconds until the client gives up; None: it never does."""
        return None if self._deadline > _NEVER_S else max(0.0, self._deadline - time.time())

    async def send_initial_metadata(self, metadata: Metadata) -> None:
        """Sends what comes before the first message."""
        self._metadata_sent = True
        await self._done(cygrpc.SendInitialMetadataOperation(tuple(metadata), _NO_FLAGS))

    async def read(self) -> Any:
        """The next request, or `grpc.aio.EOF`; one read at a time."""
        operation = cygrpc.ReceiveMessageOperation(_NO_FLAGS)
        await self._done(operation)
        message = operation.message()
        if message is None:
            return grpc.aio.EOF
        return self.deserialized(message)

    async def requests(self) -> AsyncIterator[Any]:
        """Every request until the client ends its side."""
        while (request := await self.read()) is not grpc.aio.EOF:
            yield request

    async def write(self, message: Any) -> None:
        """Sends a message as far as the client takes it; one write at a time.

        Raises `grpc.aio.UsageError` where the call has ended.
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
        """Sends the status, after the only response where there is one; nothing once ended."""
        if self._call is None:
            return
        if response is not None and not self.may_be_answered(len(response)):
            code, details = TAKES_TOO_LITTLE
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
        """Cancels the task once the client is gone; nothing where the call has ended already."""
        if self._call is not None:
            self._begin([cygrpc.ReceiveCloseOnServerOperation(_NO_FLAGS)], self._on_closed)

    def receive_request(self, begin: Callable[[ServerCall], None]) -> None:
        """Has `begin` called on the loop once the only request is there; from the thread."""

        waiting, incomplete = self._call, self._incomplete

        def received(event: Any) -> None:
            incomplete.discard(waiting)
            message = event.batch_operations[0].message()
            # None: the client gave up first.
            if message is not None:
                self.request = message
                self._completions.hand(begin, self)

        incomplete.add(waiting)
        self._begin([cygrpc.ReceiveMessageOperation(_NO_FLAGS)], received)

    def deserialized(self, message: bytes) -> Any:
        """A request as its servicer takes it; `InvalidRequestError` where it cannot be read."""
        return parsed(self.handler, self.method, message)

    def serialized(self, message: Any) -> bytes:
        """A response as it is sent."""
        serialize = self.handler and self.handler.response_serializer
        return serialize(message) if serialize else message

    def _counted(self, size_bytes: int) -> Callable[[Any], None]:
        """Counts the answer in; returns what counts it out, on any thread."""
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
        """Raises `grpc.aio.UsageError` where it is too late."""
        if self._call is None or self._call.start_server_batch(tuple(operations), tag):
            raise grpc.aio.UsageError(f"the call of {self.method} has ended")

    async def _done(self, *operations: Any) -> None:
        """Returns when the operations are done."""
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
    """Of what nobody waits for."""
