"""The servers that a client asks: the given ones, and the owners of located states."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import grpc.aio

from queryable_state.client._errors import ClientClosedError, is_being_cancelled
from queryable_state.client._process import forked
from queryable_state.client._queries.connection import ServerConnection
from queryable_state.client._queries.retries import CALLS, LOOKUPS
from queryable_state.v1 import query_pb2, watch_pb2
from queryable_state.wire.addresses import host_and_port, join_address
from queryable_state.wire.calls.forks import at_fork, keep
from queryable_state.wire.calls.listeners import NothingListensError, nothing_listens, speaks_http
from queryable_state.wire.calls.retrying import retrying
from queryable_state.wire.errors import (
    InvalidRequestError,
    QueryableStateError,
    QueryTimeoutError,
    Reason,
    RetryLaterError,
)
from queryable_state.wire.frames.frame_ports import FramePorts
from queryable_state.wire.frames.framed_stream import is_frame_port
from queryable_state.wire.security.authorization import call_metadata
from queryable_state.wire.security.credentialed_calls import with_credentials
from queryable_state.wire.status import ERROR_METADATA, error_from_call

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from queryable_state.client._queries.connection import BatchEvents
    from queryable_state.client._queries.handle import StateHandle
    from queryable_state.client._queries.lookups import KeyBatcher
    from queryable_state.client._reading.connection_info import ConnectionInfo
    from queryable_state.wire.located_state import Owner
    from queryable_state.wire.security.authorization import Credentials
    from queryable_state.wire.security.connector import Connector

# An owner behind a firewall stays unreachable; the home server is expected back soon.
_OWNER_BACKOFF_S = 30.0
_HOME_BACKOFF_S = 0.5

# A token is the same for every method.
_METHOD = "/queryable_state.v1.QueryableState"

_Response = TypeVar("_Response")
_Message = TypeVar("_Message", query_pb2.ScanKvStateResponse, watch_pb2.WatchKvStateResponse)


class HomeServers:
    """The given servers in their order, and the current one, which gets all calls while it lasts.

    When the current one is lost, the next one that is connected or may be tried takes its place,
    so that a retry reaches another server.
    """

    def __init__(self, servers: Sequence[ServerConnection], connector: Connector) -> None:
        """`servers`: at least one."""
        self._servers = tuple(servers)
        self._connector = connector
        self._current = 0
        self._was_reached = self._looked_for_others = False
        self._other_port = ""

    def __contains__(self, server: ServerConnection) -> bool:
        return server in self._servers

    @property
    def current(self) -> ServerConnection:
        """The server to ask."""
        for server in self.in_order:
            if server.connection is not None or server.may_connect():
                self._current = self._servers.index(server)
                break
        return self._servers[self._current]

    @property
    def in_order(self) -> tuple[ServerConnection, ...]:
        """All servers, the current one first, then those behind it."""
        return self._servers[self._current :] + self._servers[: self._current]

    def callable(self) -> list[ServerConnection]:
        """The servers to call one after the other; those that just failed come last."""
        return sorted(self.in_order, key=lambda server: not server.may_connect())

    def reached(self) -> None:
        """Notes that a server has answered: from now on all of them are expected back."""
        self._was_reached = True

    def lost(self, server: ServerConnection) -> None:
        """Makes the next server the current one if this one was."""
        if server is self._servers[self._current]:
            self._current = (self._current + 1) % len(self._servers)

    async def refuse_if_nothing_listens(self) -> None:
        """Raises `NothingListensError` if no server was ever reached and no process listens.

        Raises `InvalidRequestError` if an address is that of a frame port or of a web server.
        Called after a failed call: a wrong address, or a job that has not started, is said at once
        and not at the end of the caller's time.
        """
        if self._was_reached:
            return
        addresses = [server.address for server in self._servers]
        problem = await nothing_listens(addresses)
        if not problem and not self._looked_for_others:
            self._looked_for_others = True
            self._other_port = await self._other_port_of(addresses)
        if self._other_port:
            raise InvalidRequestError(self._other_port)
        if problem:
            raise NothingListensError(
                f"no state server or proxy listens at {' or '.join(addresses)} ({problem}): check "
                "host and port, and that the job or the proxy runs; a proxy has port 9069 by "
                "default",
                retry_after_ms=1000,
            )

    async def _other_port_of(self, addresses: Sequence[str]) -> str:
        """Says which of the addresses belongs to a listener that is no gRPC server."""
        for address in addresses:
            host, port = host_and_port(address)
            if await is_frame_port(host, port, self._connector):
                return (
                    f"{address} is the frame port of a server: give the gRPC port beside it, by "
                    f"default {join_address(host, port - 1)}; the client finds the frame port "
                    "itself"
                )
            if await speaks_http(address, self._connector):
                return (
                    f"a web server listens at {address}, such as that of the page or of metrics: "
                    "give the gRPC port of a proxy (9069 by default) or of a state server (9067)"
                )
        return ""


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
        if server.connection is not None:
            return server
        server.connect()
        return self._homes.current

    def send_alone(self, batcher: KeyBatcher, key: bytes, future: asyncio.Future[Any]) -> bool:
        """Sends the key of a located state at once if nothing is in flight to its owner."""
        located = batcher.handle.located
        assert located is not None
        owners = located.owners
        owner = owners[0] if len(owners) == 1 else located.by_key_group[key[0] << 8 | key[1]]
        server = self._by_address.get(owner.address)
        if server is None or not self._direct or server.server_id not in ("", owner.server_id):
            server = self.for_owner(owner)
        connection = server.connection
        return connection is not None and connection.send_alone(batcher, key, future)

    def adopt_lone(self) -> None:
        """Makes each lone query in flight a batch, before the client ends all batches."""
        for server in tuple(self._by_address.values()):
            server.adopt_lone()

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
            if server.connection is not None and server not in self._homes and not home_only
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


class StreamCall(Generic[_Message]):
    """Stream of the messages of one scan or watch; the server sends one when the client reads."""

    def __init__(
        self,
        pool: ConnectionPool,
        server: ServerConnection,
        call: grpc.aio.UnaryStreamCall[Any, _Message],
        what: str,
    ) -> None:
        """`what`: scan or watch, for error texts."""
        self._pool = pool
        self._server = server
        self._what = what
        self._call: Any = call
        """None: it is the call of the parent of this process."""
        at_fork(self)

    @classmethod
    def scan(
        cls, pool: ConnectionPool, server: ServerConnection, request: query_pb2.ScanKvStateRequest
    ) -> StreamCall[query_pb2.ScanKvStateResponse]:
        """Starts a scan."""
        call = server.stub.ScanKvState(request, metadata=_metadata(server, "ScanKvState"))
        return StreamCall(pool, server, call, "scan")

    @classmethod
    def watch(
        cls, pool: ConnectionPool, server: ServerConnection, request: watch_pb2.WatchKvStateRequest
    ) -> StreamCall[watch_pb2.WatchKvStateResponse]:
        """Starts a watch."""
        call = server.stub.WatchKvState(request, metadata=_metadata(server, "WatchKvState"))
        return StreamCall(pool, server, call, "watch")

    async def next(self, timeout_s: float) -> _Message:
        """Returns the next message.

        Raises the server's refusal, or `QueryTimeoutError` if none arrives within `timeout_s`.
        """
        call = self._call
        if call is None:
            raise forked()
        server, credentials = self._server, self._server.credentials
        try:
            async with asyncio.timeout(timeout_s):
                message = await call.read()
        except TimeoutError:
            raise QueryTimeoutError(
                f"{server.address} sent no message of a {self._what} within {timeout_s:g} s: "
                "increase timeout_s, or find out why the server is slow"
            ) from None
        except grpc.aio.AioRpcError as refused:
            error = self._pool.refusal(refused, server, timeout_s)
            if credentials is not None and credentials.corrects(error):
                # Another call, which continues behind this one, sends another token.
                error = RetryLaterError(error.message, retry_after_ms=1)
            raise error from refused
        except asyncio.CancelledError:
            self._pool.raise_if_closed()
            if call.cancelled() and not is_being_cancelled():
                raise ClientClosedError(
                    f"the {self._what} was closed while a task waited for its next message: open "
                    "another one"
                ) from None
            raise
        if message is grpc.aio.EOF:
            raise RetryLaterError(
                f"{server.address} ended a {self._what} before its last message",
                retry_after_ms=100,
            )
        received: _Message = message
        return received

    def cancel(self) -> None:
        """Ends the call on client and server. Idempotent."""
        if self._call is not None:
            self._call.cancel()

    def leave_to_parent(self) -> None:
        """Neither reads nor ends the call in a forked process."""
        keep(self._call)
        self._call = None


def _metadata(server: ServerConnection, method: str) -> tuple[tuple[str, str], ...] | None:
    return call_metadata(server.credentials, f"/queryable_state.v1.QueryableState/{method}")


def _closed_error() -> ClientClosedError:
    return ClientClosedError("the client was closed while this call waited: open another")
