"""The servers a client talks to: the one it was given, and the owners it found."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, TypeVar

import grpc.aio

from queryable_state.client._connection.scan_call import ScanCall
from queryable_state.client._connection.server_connection import ServerConnection
from queryable_state.client._errors import ClientClosedError, is_being_cancelled
from queryable_state.client._routing.retries import CALLS, LOOKUPS
from queryable_state.wire.calls.retrying import retrying
from queryable_state.wire.errors import QueryableStateError, QueryTimeoutError
from queryable_state.wire.frames.frame_ports import FramePorts
from queryable_state.wire.status import ERROR_METADATA, error_from_call

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from queryable_state.client._reading.connection_info import ConnectionInfo
    from queryable_state.client._routing.dispatcher import Dispatcher
    from queryable_state.client._routing.state_handle import StateHandle
    from queryable_state.v1 import query_pb2
    from queryable_state.wire.located_state import Owner

# Who cannot be reached behind a firewall stays so; the home server is waited for.
_OWNER_BACKOFF_S = 30.0
_HOME_BACKOFF_S = 0.5

_Response = TypeVar("_Response")


class ConnectionPool:
    """Every server by its address.

    The home server, whose address the client was given, answers for all keys
    where it is a proxy. Owners are asked directly once a stream to them is open;
    until then, and where they cannot be reached, home is asked.
    """

    def __init__(self, dispatcher: Dispatcher, home: str, client: str, *, direct: bool) -> None:
        self._dispatcher = dispatcher
        self._client = client
        self._direct = direct
        self._frame_ports = FramePorts()
        self._home = ServerConnection(
            dispatcher,
            home,
            client,
            max_backoff_s=_HOME_BACKOFF_S,
            frame_ports=self._frame_ports,
        )
        self._by_address = {home: self._home}
        self._closed = False

    def of(self, owner: Owner) -> ServerConnection:
        """Whom to ask for the keys of an owner."""
        if not self._direct or not owner.address:
            return self._home
        server = self._by_address.get(owner.address)
        if server is None or server.server_id not in ("", owner.server_id):
            if server is not None:
                # Another server listens there now, or did when this one was found.
                server.retire()
            server = ServerConnection(
                self._dispatcher,
                owner.address,
                self._client,
                max_backoff_s=_OWNER_BACKOFF_S,
                frame_ports=self._frame_ports,
                server_id=owner.server_id,
                known=owner.description(),
            )
            self._by_address[owner.address] = server
        if server.is_ready:
            return server
        server.connect()
        return self._home

    def connections(self) -> tuple[ConnectionInfo, ...]:
        """How look-ups go to each server now; home comes first."""
        return tuple(server.info for server in self._by_address.values())

    async def settled(self, timeout_s: float) -> None:
        """Waits for attempts to connect that are under way, at most so long."""
        self._home.connect()
        pool = tuple(self._by_address.values())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(*(server.connected() for server in pool))

    def keep(self, handles: Iterable[StateHandle]) -> None:
        """Closes the connections to those who own nothing of these states any more."""
        owners = {
            owner.address
            for handle in handles
            if handle.located is not None
            for owner in handle.located.owners
        }
        for address in [*self._by_address]:
            server = self._by_address[address]
            if address not in owners and server is not self._home:
                del self._by_address[address]
                server.retire()

    async def locate_state(
        self, request: query_pb2.LocateStateRequest, *, timeout_s: float
    ) -> query_pb2.LocateStateResponse:
        """Where a state is, as one of the servers knows; asks each once."""
        answerer, response = await self._ask_each(
            lambda server: server.stub.LocateState, request, timeout_s
        )
        answerer.known = response.server
        return response

    async def list_jobs(
        self, request: query_pb2.ListJobsRequest, *, timeout_s: float
    ) -> query_pb2.ListJobsResponse:
        """The jobs; asked again until somebody answers or time runs out."""
        return await self._insist(lambda server: server.stub.ListJobs, request, timeout_s)

    async def list_states(
        self, request: query_pb2.ListStatesRequest, *, timeout_s: float
    ) -> query_pb2.ListStatesResponse:
        """The states; asked again until somebody answers or time runs out."""
        return await self._insist(lambda server: server.stub.ListStates, request, timeout_s)

    async def measure_state(
        self, request: query_pb2.MeasureStateRequest, *, timeout_s: float
    ) -> query_pb2.MeasureStateResponse:
        """About how much a state holds, as the home server finds: an owner knows its part alone."""
        return await self._insist(
            lambda server: server.stub.MeasureState, request, timeout_s, home_only=True
        )

    def scan(self, request: query_pb2.ScanKvStateRequest) -> ScanCall:
        """A scan by the home server, of any length."""
        return ScanCall(self, self._home, request)

    def refusal(
        self, refused: grpc.aio.AioRpcError, server: ServerConnection, timeout_s: float
    ) -> QueryableStateError:
        """What the end of a call means to its caller."""
        if self._closed:
            return _closed_error()
        if any(key == ERROR_METADATA for key, _ in refused.trailing_metadata() or ()):
            return error_from_call(refused, server.address)
        if refused.code() == grpc.StatusCode.UNAVAILABLE:
            return server.unreachable(str(refused.details()))
        if refused.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
            return QueryTimeoutError(
                f"{server.address} did not answer within {timeout_s:g} s: allow more time, or find "
                "out why it is slow"
            )
        return error_from_call(refused, server.address)

    def raise_if_closed(self) -> None:
        """Raises where the client was closed, and not the task cancelled: closing a channel
        cancels its calls, not the tasks that wait for them."""
        if self._closed and not is_being_cancelled():
            raise _closed_error() from None

    async def aclose(self) -> None:
        """Closes every connection; idempotent."""
        self._closed = True
        pool = tuple(self._by_address.values())
        await asyncio.gather(*(server.aclose() for server in pool))

    async def _insist(
        self,
        rpc: Callable[[ServerConnection], Callable[..., Awaitable[_Response]]],
        request: Any,
        timeout_s: float,
        *,
        home_only: bool = False,
    ) -> _Response:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s

        async def attempt() -> _Response:
            left_s = deadline - loop.time()
            if home_only:
                return await self._ask(rpc, self._home, request, left_s)
            return (await self._ask_each(rpc, request, left_s))[1]

        return await retrying(attempt, LOOKUPS, deadline_s=deadline)

    async def _ask_each(
        self,
        rpc: Callable[[ServerConnection], Callable[..., Awaitable[_Response]]],
        request: Any,
        timeout_s: float,
    ) -> tuple[ServerConnection, _Response]:
        """The first answer, and who gave it."""
        others = [
            server
            for server in self._by_address.values()
            if server.is_ready and server is not self._home
        ]
        # Everybody knows the same; home is asked first while it is well.
        pool = [self._home, *others] if self._home.may_connect() else [*others, self._home]
        failure: QueryableStateError | None = None
        for number, server in enumerate(pool):
            started = asyncio.get_running_loop().time()
            try:
                left_s = timeout_s / (len(pool) - number)
                return server, await self._ask(rpc, server, request, left_s)
            except QueryableStateError as refusal:
                if not CALLS.retries(refusal):
                    raise
                failure = refusal
            timeout_s -= asyncio.get_running_loop().time() - started
        assert failure is not None
        raise failure

    async def _ask(
        self,
        rpc: Callable[[ServerConnection], Callable[..., Awaitable[_Response]]],
        server: ServerConnection,
        request: Any,
        timeout_s: float,
    ) -> _Response:
        try:
            return await rpc(server)(request, timeout=timeout_s)
        except grpc.aio.AioRpcError as refused:
            raise self.refusal(refused, server, timeout_s) from refused
        except asyncio.CancelledError:
            self.raise_if_closed()
            raise


def _closed_error() -> ClientClosedError:
    return ClientClosedError("the client was closed while this call waited: open another")
