"""The server: its ports, and the calls it takes."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from typing import TYPE_CHECKING, Any, NamedTuple

import grpc
import grpc.aio

from queryable_state.server.grpc_core.completions import Completions
from queryable_state.server.grpc_core.core import cygrpc
from queryable_state.server.grpc_core.incomplete_requests import IncompleteRequests
from queryable_state.server.grpc_core.server_call import TAKES_TOO_LITTLE, ServerCall
from queryable_state.server.grpc_core.unsent_answers import UnsentAnswers
from queryable_state.server.process.rate_limited_log import RateLimitedLog
from queryable_state.server.serving.byte_budget import ClientBudgets
from queryable_state.server.serving.large_request_queue import LARGE_BYTES
from queryable_state.wire.errors import QueryableStateError, shown
from queryable_state.wire.status import status_of, trailing_metadata

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from queryable_state.server.grpc_core.server_call import Metadata
    from queryable_state.server.serving.large_request_queue import LargeRequestQueue

_refusals = RateLimitedLog(logging.getLogger(__name__))

_SWEEP_S = 1.0
_ANSWER_BYTES = 64 * 1024 * 1024


class _Details(NamedTuple):
    """What a generic handler looks a method up by."""

    method: str
    invocation_metadata: Metadata


class GrpcServer:
    """Answers calls on the running loop with the asyncio servicers that `grpc.aio` has, too.

    Unary calls, and streams either way that end with the servicer. Handlers and ports first,
    then `start`; `stop` may be called without it and more than once.
    """

    def __init__(
        self,
        options: Sequence[tuple[str, int]],
        *,
        budgets: ClientBudgets | None = None,
        read_timeout_s: float = 10.0,
        endless: Collection[str] = (),
    ) -> None:
        """`budgets`: of the process; None: some of its own. `endless`: full names of methods whose
        calls nobody waits for when the server stops."""
        budgets = budgets or ClientBudgets(_ANSWER_BYTES)
        self._large_requests = budgets.large_requests
        self._server: Any = cygrpc.Server(tuple(options), False)
        self._completions = Completions()
        self._server.register_completion_queue(self._completions.queue)
        self._generic_handlers: list[grpc.GenericRpcHandler] = []
        self._handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        """By full name, of methods that were called."""
        self._incomplete = IncompleteRequests(read_timeout_s)
        self._unsent = UnsentAnswers(budgets.answers)
        self._sweep: asyncio.TimerHandle | None = None
        self._calls: set[asyncio.Task[None]] = set()
        self._endless = frozenset(endless)
        self._endless_calls: set[asyncio.Task[None]] = set()
        self._serving = False
        self._shutting_down = False
        self._ended = False

    def add_generic_rpc_handlers(self, handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        """As generated code calls it."""
        self._generic_handlers.extend(handlers)

    def add_registered_method_handlers(
        self, service: str, handlers: Mapping[str, grpc.RpcMethodHandler[Any, Any]]
    ) -> None:
        """As generated code calls it, after it has told the same as generic handlers."""

    def add_insecure_port(self, address: str) -> int:
        """Listens at HOST:PORT; returns the port. `RuntimeError` where it is taken."""
        port: int = self._server.add_http2_port(address.encode())
        if not port:
            raise RuntimeError(f"cannot listen on {address}")
        return port

    async def start(self) -> None:
        """Answers from here on."""
        self._loop = asyncio.get_running_loop()
        self._shut_down, self._expects_none = self._loop.create_future(), self._loop.create_future()
        self._completions.start()
        self._server.start()
        self._serving = True
        self._expect_call()
        self._sweep_calls()

    def shut_down(self) -> None:
        """Gives up its ports and takes no more calls; those there are go on. Idempotent."""
        if not self._serving:
            return
        self._serving = False
        self._shutting_down = True
        if self._sweep is not None:
            self._sweep.cancel()
        hand = self._completions.hand
        self._server.shutdown(
            self._completions.queue, lambda _event: hand(self._shut_down.set_result, None)
        )

    async def idle(self) -> None:
        """Returns once every call has ended, but for the endless ones."""
        while ending := self._calls - self._endless_calls:
            await asyncio.wait(ending)

    async def stop(self, grace_s: float) -> None:
        """Takes no more calls, waits so long for those there are, cancels the rest. Idempotent."""
        self.shut_down()
        if not self._shutting_down:
            return
        self._shutting_down = False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await self.idle()
        self._server.cancel_all_calls()
        # The core shuts down when its connections are gone; calls may still be on their way here.
        await self._shut_down
        await self._expects_none
        while self._calls:
            await asyncio.wait(self._calls)
        self._ended = True
        await self._completions.aclose()
        self._server.destroy()

    def _expect_call(self) -> None:
        queue = self._completions.queue
        self._server.request_call(queue, queue, self._on_call)

    def _on_call(self, event: Any) -> None:
        """On the thread of the completions."""
        if not self._expects_next():
            self._completions.hand(self._expects_none.set_result, None)
        if not event.success:
            return
        call = ServerCall(event, self._completions, self._incomplete, self._unsent)
        call.handler = self._handler(call)
        if call.handler is None or call.handler.request_streaming:
            self._completions.hand(self._begin, call)
        else:
            call.receive_request(self._begin)

    def _expects_next(self) -> bool:
        if self._serving:
            # Refused where the server shuts down at this moment.
            with contextlib.suppress(ValueError):
                self._expect_call()
                return True
        return False

    def _handler(self, call: ServerCall) -> grpc.RpcMethodHandler[Any, Any] | None:
        known = self._handlers.get(call.method)
        if known is not None:
            return known
        details: Any = _Details(call.method, call.invocation_metadata())
        for handlers in self._generic_handlers:
            found = handlers.service(details)
            if found is not None:
                self._handlers[call.method] = found
                return found
        return None

    def _sweep_calls(self) -> None:
        """Gives up what clients neither send nor take."""
        given_up = self._incomplete.cancel_old() + self._unsent.cancel_old()
        if given_up:
            _refusals.write(
                logging.WARNING,
                "slow clients",
                "%d calls were given up: their clients did not send a request, or did not read an "
                "answer, in time",
                given_up,
            )
        self._sweep = self._loop.call_later(_SWEEP_S, self._sweep_calls)

    def _begin(self, call: ServerCall) -> None:
        if self._ended:
            return
        if not call.may_be_answered():
            _refusals.write(
                logging.WARNING,
                "unread answers",
                "%s is refused calls: it does not read its answers",
                call.peer,
            )
            call.end(*TAKES_TOO_LITTLE)
            return
        task = call.task = self._loop.create_task(_answer(call, self._large_requests))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        if call.method in self._endless:
            self._endless_calls.add(task)
            task.add_done_callback(self._endless_calls.discard)
        # After the task's first step, with which most calls are answered and need no watching.
        self._loop.call_soon(call.watch)


async def _answer(call: ServerCall, large_requests: LargeRequestQueue) -> None:
    """Never raises but for cancellation: what goes wrong is the call's status."""
    handler = call.handler
    if handler is None:
        call.end(grpc.StatusCode.UNIMPLEMENTED, f"there is no method {shown(call.method)}")
        return
    servicer = _servicer(handler)
    try:
        if len(call.request) > LARGE_BYTES:
            await large_requests.next()
            # Other answers to its client may have been made meanwhile, and not been read.
            if not call.may_be_answered():
                call.end(*TAKES_TOO_LITTLE)
                return
        request = call.requests() if handler.request_streaming else call.deserialized(call.request)
        if not handler.response_streaming:
            response = await servicer(request, call)
            call.end(response=call.serialized(response))
            return
        if inspect.isasyncgenfunction(servicer):
            async for response in servicer(request, call):
                await call.write(response)
        else:
            await servicer(request, call)
        call.end()
    except asyncio.CancelledError:
        call.end(grpc.StatusCode.CANCELLED, "the server has cancelled the call")
        raise
    except grpc.aio.BaseError:
        # It was aborted, or the client is gone; a call that goes on has been used wrongly.
        call.end(grpc.StatusCode.UNKNOWN, f"{call.method} was not answered")
    except QueryableStateError as refusal:
        _refusals.write(
            logging.WARNING, refusal.reason_name, "a request is refused: %s", refusal.message
        )
        call.end(status_of(refusal), refusal.message, trailing_metadata(refusal))
    except Exception as defect:  # noqa: BLE001 - the boundary: a defect becomes a status
        _refusals.write(logging.ERROR, call.method, "%s failed", call.method, problem=defect)
        call.end(grpc.StatusCode.UNKNOWN, f"{call.method} failed: {type(defect).__name__}")
    finally:
        # A cancelled task keeps the frames it was in, and with them the call: a cycle would wait
        # for the garbage collector, which hardly ever comes.
        call.task, call.request = None, b""


def _servicer(handler: grpc.RpcMethodHandler[Any, Any]) -> Any:
    if handler.request_streaming:
        return handler.stream_stream if handler.response_streaming else handler.stream_unary
    return handler.unary_stream if handler.response_streaming else handler.unary_unary
