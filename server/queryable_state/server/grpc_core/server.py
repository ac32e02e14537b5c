"""gRPC server: its ports and calls."""

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
from queryable_state.server.grpc_core.server_call import ServerCall
from queryable_state.server.grpc_core.unsent_answers import TAKES_TOO_LITTLE, UnsentAnswers
from queryable_state.server.process.rate_limited_log import RateLimitedLog
from queryable_state.server.security.access.caller import caller_of_call
from queryable_state.server.serving.byte_budget import ClientBudgets
from queryable_state.server.serving.error_boundary import to_refusal
from queryable_state.server.serving.large_request_queue import LARGE_BYTES
from queryable_state.wire.errors import QueryableStateError, shown
from queryable_state.wire.status import status_of, trailing_metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence

    from queryable_state.server.grpc_core.server_call import Metadata
    from queryable_state.server.security.access.gate import Gate
    from queryable_state.server.serving.large_request_queue import LargeRequestQueue


_log = logging.getLogger(__name__)


async def authenticate(gate: Gate, call: ServerCall) -> bool:
    """Sets the caller of a call; False if it has none: the call is ended then."""
    try:
        call.caller = await gate.caller(call.method, call.invocation_metadata())
    except asyncio.CancelledError:
        call.end(grpc.StatusCode.CANCELLED, "the server has cancelled the call")
        raise
    except Exception as failure:  # noqa: BLE001 - the boundary: a defect becomes a status
        _refuse(call, failure)
        return False
    finally:
        # A cancelled task keeps its frames, and with them the call.
        call.task = None
    return True


def _refuse(call: ServerCall, failure: Exception) -> None:
    # In a function of its own: a frame of the failure's trace that keeps the failure is a cycle,
    # and the garbage collector hardly ever runs.
    refusal = to_refusal(failure, f"the authentication of {call.method}")
    call.end(status_of(refusal), refusal.message, trailing_metadata(refusal))


_refusals = RateLimitedLog(logging.getLogger(__name__))

_SWEEP_S = 1.0
_ANSWER_BYTES = 64 * 1024 * 1024


class _Details(NamedTuple):
    """The details by which a generic handler finds a method."""

    method: str
    invocation_metadata: Metadata


class GrpcServer:
    """Serves asyncio servicers of `grpc.aio` on the running loop: unary and streaming calls.

    Add handlers and ports, then call `start`. `stop` is idempotent and needs no `start`.
    """

    def __init__(
        self,
        options: Sequence[tuple[str, int]],
        *,
        budgets: ClientBudgets | None = None,
        read_timeout_s: float = 10.0,
        endless: Collection[str] = (),
        gate: Gate | None = None,
    ) -> None:
        """`budgets`: those of the process; None: budgets of its own. `endless`: full names of
        methods whose calls are not awaited when the server stops. `gate`: authenticates callers,
        before their requests are read; None: everyone is answered."""
        budgets = budgets or ClientBudgets(_ANSWER_BYTES)
        self._large_requests = budgets.large_requests
        self._server: Any = cygrpc.Server(tuple(options), False)
        self._completions = Completions()
        self._server.register_completion_queue(self._completions.queue)
        self._generic_handlers: list[grpc.GenericRpcHandler] = []
        self._handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        """Handlers of methods that were called, by full name."""
        self._incomplete = IncompleteRequests(read_timeout_s)
        self._unsent = UnsentAnswers(budgets.answers)
        self._sweep: asyncio.TimerHandle | None = None
        self._calls: set[asyncio.Task[None]] = set()
        self._endless = frozenset(endless)
        self._gate = gate
        self._endless_calls: set[asyncio.Task[None]] = set()
        self._serving = False
        self._shutting_down = False
        self._ended = False

    def add_generic_rpc_handlers(self, handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        """Adds handlers; generated code calls it."""
        self._generic_handlers.extend(handlers)

    def add_registered_method_handlers(
        self, service: str, handlers: Mapping[str, grpc.RpcMethodHandler[Any, Any]]
    ) -> None:
        """Does nothing: generated code adds the same handlers as generic ones before."""

    def add_insecure_port(self, address: str) -> int:
        """Binds HOST:PORT and returns the port; raises `RuntimeError` if it is in use."""
        return self._add_port(address)

    def add_secure_port(self, address: str, server_credentials: Any) -> int:
        """Binds HOST:PORT with TLS; as `add_insecure_port`."""
        return self._add_port(address, server_credentials._credentials)

    def _add_port(self, address: str, *credentials: Any) -> int:
        port: int = self._server.add_http2_port(address.encode(), *credentials)
        if not port:
            raise RuntimeError(f"cannot listen on {address}")
        return port

    async def start(self) -> None:
        """Starts to serve."""
        self._loop = asyncio.get_running_loop()
        self._shut_down, self._expects_none = self._loop.create_future(), self._loop.create_future()
        self._completions.start()
        self._server.start()
        self._serving = True
        self._expect_call()
        self._sweep_calls()

    def shut_down(self) -> None:
        """Closes the ports and accepts no more calls; running calls continue. Idempotent."""
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

    async def answered(self) -> None:
        """Returns once the calls that run now have ended, except the endless ones."""
        if ending := self._calls - self._endless_calls:
            await asyncio.wait(ending)

    async def stop(self, grace_s: float) -> None:
        """Accepts no more calls, waits `grace_s` for running ones, cancels the rest. Idempotent."""
        self.shut_down()
        if not self._shutting_down:
            return
        self._shutting_down = False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await self.answered()
        self._server.cancel_all_calls()
        # The core shuts down after its connections close; calls may still be pending here.
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
        """Takes a new call. Runs on the thread of the completions."""
        if not self._expects_next():
            self._completions.hand(self._expects_none.set_result, None)
        if not event.success:
            return
        call = ServerCall(event, self._completions, self._incomplete, self._unsent)
        if self._gate is not None:
            call.caller = self._gate.caller_now(call.method, call.invocation_metadata())
            if call.caller is None:
                self._completions.hand(self._begin_authentication, call)
                return
        self._receive(call, self._completions.hand)

    def _receive(
        self, call: ServerCall, hand: Callable[[Callable[[ServerCall], None], ServerCall], None]
    ) -> None:
        """Reads the request of a call, then begins it; `hand` calls a function on the loop."""
        call.handler = self._handler(call)
        if call.handler is None or call.handler.request_streaming:
            hand(self._begin, call)
        else:
            call.receive_request(self._begin)

    def _begin_authentication(self, call: ServerCall) -> None:
        if not self._ended:
            self._run(call, self._authenticate(call))

    async def _authenticate(self, call: ServerCall) -> None:
        assert self._gate is not None
        if await authenticate(self._gate, call):
            with contextlib.suppress(grpc.aio.UsageError):
                self._receive(call, lambda begin, call: begin(call))

    def _run(self, call: ServerCall, work: Coroutine[Any, Any, None]) -> None:
        task = call.task = self._loop.create_task(work)
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        if call.method in self._endless:
            self._endless_calls.add(task)
            task.add_done_callback(self._endless_calls.discard)

    def _expects_next(self) -> bool:
        if self._serving:
            # Fails if the server is shutting down at this moment.
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
        """Cancels calls whose clients do not send their request or do not read their answer."""
        given_up = self._incomplete.cancel_old() + self._unsent.cancel_old()
        if given_up:
            _refusals.write(
                logging.WARNING,
                "slow clients",
                "cancelled %d calls: their clients did not send a request, or did not read an "
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
                "refusing calls of %s: it does not read its answers",
                call.peer,
            )
            call.end(*TAKES_TOO_LITTLE)
            return
        self._run(call, _answer(call, self._large_requests))
        # Runs after the task's first step, which answers most calls, so these need no watch.
        self._loop.call_soon(call.watch)


async def _answer(call: ServerCall, large_requests: LargeRequestQueue) -> None:
    """Answers a call; every error except cancellation becomes the status of the call."""
    handler = call.handler
    if handler is None:
        call.end(grpc.StatusCode.UNIMPLEMENTED, f"there is no method {shown(call.method)}")
        return
    servicer = _servicer(handler)
    if call.caller is not None:
        caller_of_call.set(call.caller)
    try:
        if len(call.request) > LARGE_BYTES:
            await large_requests.next()
            # Other answers to the same client may be unread by now.
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
        # Aborted, or the client is gone; if the call is still open, the servicer misused it.
        call.end(grpc.StatusCode.UNKNOWN, f"{call.method} was not answered")
    except QueryableStateError as refusal:
        _refusals.write(
            logging.WARNING, refusal.reason_name, "refusing a request: %s", refusal.message
        )
        call.end(status_of(refusal), refusal.message, trailing_metadata(refusal))
    except Exception as defect:  # noqa: BLE001 - the boundary: a defect becomes a status
        _refusals.write(logging.ERROR, call.method, "%s failed", call.method, problem=defect)
        call.end(grpc.StatusCode.UNKNOWN, f"{call.method} failed: {type(defect).__name__}")
    finally:
        # A cancelled task keeps its frames and with them the call: the cycle is broken here,
        # because the garbage collector hardly ever runs.
        call.task, call.request = None, b""


def _servicer(handler: grpc.RpcMethodHandler[Any, Any]) -> Any:
    if handler.request_streaming:
        return handler.stream_stream if handler.response_streaming else handler.stream_unary
    return handler.unary_stream if handler.response_streaming else handler.unary_unary
