"""A public gRPC server on `grpc.aio`, in place of the one on gRPC's core."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from queryable_state.server.grpc_requests import parsed
from queryable_state.server.security.access.caller import caller_of_call
from queryable_state.server.serving.error_boundary import end_with_status
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from queryable_state.server.security.access.gate import Gate

    Handler = grpc.RpcMethodHandler[Any, Any]

# `shut_down` only closes the ports; `stop` sets the time that calls have.
_UNTIL_STOP_S = 3600.0


class AioServer:
    """Same contract as `grpc_core.GrpcServer`, without its limits on slow clients.

    It neither gives up requests that are not sent in time nor answers that are not read.
    """

    def __init__(
        self,
        options: Sequence[tuple[str, int]],
        *,
        endless: Collection[str] = (),
        gate: Gate | None = None,
    ) -> None:
        """`gate`: authenticates callers; None: everyone is answered."""
        self._server = grpc.aio.server(options=options)
        self._endless = frozenset(endless)
        self._gate = gate
        self._calls: set[asyncio.Task[Any]] = set()
        self._endless_calls: set[asyncio.Task[Any]] = set()
        self._serving = False
        self._shutting_down: asyncio.Task[None] | None = None

    def add_generic_rpc_handlers(self, handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        """As generated code calls it."""
        self._server.add_generic_rpc_handlers(
            tuple(_CountedHandlers(self, each) for each in handlers)
        )

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Handler]) -> None:
        """As generated code calls it, after it has told the same as generic handlers."""

    def add_insecure_port(self, address: str) -> int:
        """Listens at HOST:PORT; returns the port. `RuntimeError` if it is taken."""
        return self._server.add_insecure_port(address)

    def add_secure_port(self, address: str, server_credentials: grpc.ServerCredentials) -> int:
        """Listens at HOST:PORT with TLS; returns the port. `RuntimeError` if it is taken."""
        return self._server.add_secure_port(address, server_credentials)

    async def start(self) -> None:
        """Answers from here on."""
        await self._server.start()
        self._serving = True

    def shut_down(self) -> None:
        """Gives up its ports and takes no more calls; running calls go on. Idempotent."""
        if self._serving:
            self._serving = False
            self._shutting_down = asyncio.create_task(self._server.stop(_UNTIL_STOP_S))

    async def idle(self) -> None:
        """Returns once every call has ended, but for the endless ones."""
        while ending := self._calls - self._endless_calls:
            await asyncio.wait(ending)

    async def stop(self, grace_s: float) -> None:
        """Takes no more calls, waits so long for running ones, cancels the rest. Idempotent."""
        self.shut_down()
        stopping, self._shutting_down = self._shutting_down, None
        if stopping is None:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await self.idle()
        await self._server.stop(None)
        await stopping
        while self._calls:
            await asyncio.wait(self._calls)

    async def authenticate(self, method: str, context: Any) -> None:
        """Finds out who calls; raises the refusal."""
        if self._gate is not None:
            metadata = context.invocation_metadata()
            caller_of_call.set(await self._gate.caller(method, metadata))

    @contextlib.contextmanager
    def counted(self, method: str) -> Iterator[None]:
        """Counts the call that the current task answers."""
        task = asyncio.current_task()
        assert task is not None
        self._calls.add(task)
        if method in self._endless:
            self._endless_calls.add(task)
        try:
            yield
        finally:
            self._calls.discard(task)
            self._endless_calls.discard(task)


class _CountedHandlers(grpc.GenericRpcHandler):
    """The handlers of a service, whose calls their server counts."""

    def __init__(self, server: AioServer, handlers: grpc.GenericRpcHandler) -> None:
        self._server = server
        self._handlers = handlers

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Handler | None:
        handler = self._handlers.service(handler_call_details)
        if handler is None:
            return None
        method = handler_call_details.method
        if handler.response_streaming:
            return self._of_many_answers(handler, method)
        servicer: Any = handler.stream_unary if handler.request_streaming else handler.unary_unary

        async def answer(request: Any, context: Any) -> Any:
            with self._server.counted(method):
                try:
                    await self._server.authenticate(method, context)
                    if not handler.request_streaming:
                        request = parsed(handler, method, request)
                    return await servicer(request, context)
                except QueryableStateError as refusal:
                    await end_with_status(context, refusal)

        if handler.request_streaming:
            return grpc.stream_unary_rpc_method_handler(
                answer, handler.request_deserializer, handler.response_serializer
            )
        # `grpc.aio` has no status for a request that cannot be parsed: `answer` parses it.
        return grpc.unary_unary_rpc_method_handler(answer, None, handler.response_serializer)

    def _of_many_answers(self, handler: Handler, method: str) -> Handler:
        servicer: Any = handler.stream_stream if handler.request_streaming else handler.unary_stream

        async def answer(request: Any, context: Any) -> None:
            with self._server.counted(method):
                try:
                    await self._server.authenticate(method, context)
                    if not handler.request_streaming:
                        request = parsed(handler, method, request)
                    if not inspect.isasyncgenfunction(servicer):
                        await servicer(request, context)
                        return
                    async for message in servicer(request, context):
                        await context.write(message)
                except QueryableStateError as refusal:
                    await end_with_status(context, refusal)

        if handler.request_streaming:
            return grpc.stream_stream_rpc_method_handler(
                answer, handler.request_deserializer, handler.response_serializer
            )
        return grpc.unary_stream_rpc_method_handler(answer, None, handler.response_serializer)
