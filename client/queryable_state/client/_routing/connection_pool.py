"""Server connections of one client, by address."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, TypeVar

import grpc.aio

from queryable_state.client._connection.server_connection import ServerConnection
from queryable_state.client._connection.stream_call import StreamCall
from queryable_state.client._errors import ClientClosedError, is_being_cancelled
from queryable_state.client._process import forked
from queryable_state.client._routing.home_servers import HomeServers
from queryable_state.client._routing.retries import CALLS, LOOKUPS
from queryable_state.wire.calls.forks import at_fork
from queryable_state.wire.calls.retrying import retrying
from queryable_state.wire.errors import QueryableStateError, QueryTimeoutError, Reason
from queryable_state.wire.frames.frame_ports import FramePorts
from queryable_state.wire.security.credentialed_calls import with_credentials
from queryable_state.wire.status import ERROR_METADATA, error_from_call

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from queryable_state.client._batching.state_handle import StateHandle
    from queryable_state.client._connection.events import BatchEvents
    from queryable_state.client._reading.connection_info import ConnectionInfo
    from queryable_state.v1 import query_pb2, watch_pb2
    from queryable_state.wire.located_state import Owner
    from queryable_state.wire.security.authorization import Credentials
    from queryable_state.wire.security.connector import Connector

# An owner behind a firewall stays unreachable; the home server is expected back soon.
_OWNER_BACKOFF_S = 30.0
_HOME_BACKOFF_S = 0.5

# A token is the same for every method.
_METHOD = "/queryable_state.v1.QueryableState"

_Response = TypeVar("_Response")


class ConnectionPool:
    """The home servers, whose addresses the client was given, and the owners of located states.

    A home server that is a proxy answers for all keys. The client sends queries directly to an
    owner once a stream to it is open; until then, or if the owner is unreachable, to the current
    home server.
    """

    def __init__(
        self,
        events: BatchEvents,
        homes: Sequence[str],
        client: str,
        connector: Connector,
        *,
        direct: bool,
        credentials: Credentials | None = None,
    ) -> None:
        self._events = events
        self._client = client
        self._direct = direct
        self._connector = connector
        self._credentials = credentials
        self._frame_ports = FramePorts()
        self._by_address = {
            home: ServerConnection(
                events,
                home,
                client,
                max_backoff_s=_HOME_BACKOFF_S,
                connector=connector,
                frame_ports=self._frame_ports,
                credentials=credentials,
            )
            for home in homes
        }
        self._homes = HomeServers([*self._by_address.values()], connector)
        self._closed = self._is_inherited = False
        at_fork(self)

    def for_owner(self, owner: Owner) -> ServerConnection:
        """Returns the connection for the keys of an owner; connects to it in the background."""
        if not self._direct or not owner.address:
            return self._homes.current
        server = self._by_address.get(owner.address)
        if server is None or server.server_id not in ("", owner.server_id):
            if server is not None:
                # The server at this address has changed.
                server.retire()
            server = ServerConnection(
                self._events,
                owner.address,
                self._client,
                max_backoff_s=_OWNER_BACKOFF_S,
                connector=self._connector,
                frame_ports=self._frame_ports,
                credentials=self._credentials,
                server_id=owner.server_id,
                known=owner.description(),
            )
            self._by_address[owner.address] = server
        if server.is_ready:
            return server
        server.connect()
        return self._homes.current

    def connections(self) -> tuple[ConnectionInfo, ...]:
        """The current transport to each server, home servers first."""
        return tuple(server.info for server in self._by_address.values())

    async def wait_connected(self, timeout_s: float) -> None:
        """Waits for the current attempts to connect, at most `timeout_s` seconds."""
        self._homes.current.connect()
        pool = tuple(self._by_address.values())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(*(server.connected() for server in pool))

    def retain_owners(self, handles: Iterable[StateHandle]) -> None:
        """Closes the connections to servers that own no part of these states."""
        owners = {
            owner.address
            for handle in handles
            if handle.located is not None
            for owner in handle.located.owners
        }
        for address in [*self._by_address]:
            server = self._by_address[address]
            if address not in owners and server not in self._homes:
                del self._by_address[address]
                server.retire()

    async def locate_state(
        self, request: query_pb2.LocateStateRequest, *, timeout_s: float
    ) -> query_pb2.LocateStateResponse:
        """Returns the placement of a state from the first server that answers; tries each once."""
        server, response = await self._call_each(
            lambda server: server.stub.LocateState, request, timeout_s
        )
        server.known = response.server
        return response

    async def call(
        self, method: str, request: Any, *, timeout_s: float, home_only: bool = False
    ) -> Any:
        """Calls a method of the service; retries until a server answers or `timeout_s` has passed.

        `home_only`: calls the home server only, whose proxy asks all owners.
        """
        self.raise_if_forked()
        deadline = asyncio.get_running_loop().time() + timeout_s

        async def attempt() -> Any:
            left_s = deadline - asyncio.get_running_loop().time()
            _, response = await self._call_each(
                lambda server: getattr(server.stub, method), request, left_s, home_only=home_only
            )
            return response

        return await retrying(attempt, LOOKUPS, deadline_s=deadline)

    def scan(
        self, request: query_pb2.ScanKvStateRequest
    ) -> StreamCall[query_pb2.ScanKvStateResponse]:
        """Starts a scan at the current home server."""
        self.raise_if_forked()
        return StreamCall.scan(self, self._homes.current, request)

    def watch(
        self, request: watch_pb2.WatchKvStateRequest
    ) -> StreamCall[watch_pb2.WatchKvStateResponse]:
        """Starts a watch at the current home server."""
        self.raise_if_forked()
        return StreamCall.watch(self, self._homes.current, request)

    def refusal(
        self, refused: grpc.aio.AioRpcError, server: ServerConnection, timeout_s: float
    ) -> QueryableStateError:
        """Returns the error that the caller of a failed call gets."""
        if self._closed:
            return _closed_error()
        if any(key == ERROR_METADATA for key, _ in refused.trailing_metadata() or ()):
            error = error_from_call(refused, server.address)
            if error.reason == Reason.STOPPING:
                self._homes.lost(server)
            return error
        if refused.code() == grpc.StatusCode.UNAVAILABLE:
            self._homes.lost(server)
            return server.unreachable(str(refused.details()))
        if refused.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
            return QueryTimeoutError(
                f"{server.address} did not answer within {timeout_s:g} s: increase timeout_s, or "
                "find out why the server is slow"
            )
        return error_from_call(refused, server.address)

    def raise_if_closed(self) -> None:
        """Raises `ClientClosedError` if the client was closed and the task was not cancelled.

        Closing a channel cancels its calls, not the tasks that wait for them.
        """
        if self._closed and not is_being_cancelled():
            raise _closed_error() from None

    def raise_if_forked(self) -> None:
        """Raises `ClientUnusableError` if the pool is that of the parent of this process."""
        if self._is_inherited:
            raise forked()

    def leave_to_parent(self) -> None:
        """Refuses every further call in a forked process."""
        self._is_inherited = True

    async def aclose(self) -> None:
        """Closes every connection; idempotent."""
        self._closed = True
        pool = tuple(self._by_address.values())
        await asyncio.gather(*(server.aclose() for server in pool))

    async def _call_each(
        self,
        rpc: Callable[[ServerConnection], Callable[..., Awaitable[_Response]]],
        request: Any,
        timeout_s: float,
        *,
        home_only: bool = False,
    ) -> tuple[ServerConnection, _Response]:
        """Returns the first response and its server."""
        self.raise_if_forked()
        others = [
            server
            for server in self._by_address.values()
            if server.is_ready and server not in self._homes and not home_only
        ]
        # All servers give the same answer; home comes first unless its backoff is running.
        homes = self._homes.callable()
        pool = [*homes, *others] if homes[0].may_connect() else [*others, *homes]
        failure: QueryableStateError | None = None
        for number, server in enumerate(pool):
            started = asyncio.get_running_loop().time()
            try:
                left_s = timeout_s / (len(pool) - number)
                return server, await self._call(rpc, server, request, left_s)
            except QueryableStateError as refusal:
                # The next server may have a certificate that this side trusts.
                if not CALLS.retries(refusal) and not server.diagnosis.found(refusal):
                    raise
                failure = refusal
            timeout_s -= asyncio.get_running_loop().time() - started
        assert failure is not None
        if failure.reason == Reason.UNAVAILABLE:
            await self._homes.refuse_if_nothing_listens()
        raise failure

    async def _call(
        self,
        rpc: Callable[[ServerConnection], Callable[..., Awaitable[_Response]]],
        server: ServerConnection,
        request: Any,
        timeout_s: float,
    ) -> _Response:
        try:
            response: _Response = await with_credentials(
                self._credentials,
                _METHOD,
                lambda metadata: rpc(server)(request, timeout=timeout_s, metadata=metadata),
            )
        except grpc.aio.AioRpcError as refused:
            refusal = self.refusal(refused, server, timeout_s)
            raise await server.diagnosis.explained(refusal) from refused
        except asyncio.CancelledError:
            self.raise_if_closed()
            raise
        server.diagnosis.succeeded()
        self._homes.reached()
        return response


def _closed_error() -> ClientClosedError:
    return ClientClosedError("the client was closed while this call waited: open another")
