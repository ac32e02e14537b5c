"""Settings, lifecycle and batchers of a client."""

from __future__ import annotations

import asyncio
import warnings
from typing import TYPE_CHECKING, Any, Self

from queryable_state.client._arguments import (
    DEFAULT_PORT,
    Job,
    check_name,
    checked_addresses,
    checked_timeout,
    checked_window,
    job_text,
    running_loop,
)
from queryable_state.client._consistency import Consistency, checked_consistency
from queryable_state.client._errors import ClientUnusableError, closed
from queryable_state.client._process import check_process, forked
from queryable_state.client._queries.dispatcher import Dispatcher
from queryable_state.client._queries.handle import Expectation
from queryable_state.client._queries.lookups import QueryOptions
from queryable_state.client._queries.token_credentials import (
    TokenCredentials,
    warn_of_clear_text,
)
from queryable_state.client._read_options import ReadOptions, check_options
from queryable_state.client._reading.operation import VALUE, Operation
from queryable_state.wire.calls.forks import at_fork, keep
from queryable_state.wire.packaging.protocol_versions import __version__
from queryable_state.wire.security.connector import connector_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from queryable_state.client._queries.lookups import KeyBatcher
    from queryable_state.client._queries.token_credentials import Token
    from queryable_state.client._watches.watch_streams import WatchStreams
    from queryable_state.wire.errors import QueryableStateError
    from queryable_state.wire.security.tls import Tls

DEFAULT_TIMEOUT_S = 5.0

MAX_OPTION_BATCHERS = 128
"""Batchers that a client keeps for calls with options; a caller may compute its timeouts."""


def client_name() -> str:
    """Returns the name that the client sends in its hello frame."""
    return f"python/{__version__}"


class ClientBase:
    """Base of the asyncio client, without its lookups."""

    def __init__(
        self,
        host: str | None = None,
        port: int = DEFAULT_PORT,
        *,
        addresses: str | Iterable[str] | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        direct: bool = True,
        unpickle: bool = False,
        tls: Tls | bool = False,
        token: Token | None = None,
    ) -> None:
        """Checks the settings; connects on first use.

        Args:
            host: Name or address of any proxy or state server of the job.
            port: Its gRPC port.
            addresses: Instead of `host` and `port`: several servers, each `HOST` or `HOST:PORT`
                (IPv6: `[::1]:9069`), as a list or with commas between. The client asks the first
                one that it reaches, and the next one when that is lost.
            timeout_s: Default timeout of every call, in seconds.
            direct: Send queries directly to the owners of the keys. With False the client
                uses only the given server, which must then be a proxy.
            unpickle: Load values of pickled types. Set it only if everyone who can write to
                the job's state may run code in this process.
            tls: Connect with TLS, to every server. True: their certificates are signed by an
                authority of the system.
            token: Token that names the caller to servers that ask for one: a text, or a function
                that returns the current one. The client calls the function on its event loop for
                every call and connection, so it must not block; if a server refuses a token,
                the client asks it for another one.

        Raises `InvalidRequestError` for a host, port, address, timeout or token that is malformed,
        or files of `tls` that cannot be used.
        """
        self._addresses = checked_addresses(host, port, addresses)
        self._timeout_s = checked_timeout(timeout_s)
        self._direct = direct
        self._unpickle = unpickle
        self._connector = connector_of(tls)
        self._credentials = None if token is None else TokenCredentials(token)
        if token is not None and not tls:
            warn_of_clear_text(self._addresses)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opened: Dispatcher | None = None
        self._watch_streams: WatchStreams | None = None
        self._closed = False
        self._closed_error = closed
        # Batchers of calls without options, by job and state as the caller names them and, unless
        # it is VALUE, by operation.
        self._batchers: dict[tuple[Job, str] | tuple[Job, str, Operation], KeyBatcher] = {}
        # Batchers of calls with options, by all arguments but the key; oldest first.
        self._option_batchers: dict[tuple[object, ...], KeyBatcher] = {}
        at_fork(self)

    async def aclose(self) -> None:
        """Closes every connection; pending queries fail with `ClientClosedError`. Idempotent."""
        self._closed = True
        self._batchers.clear()
        self._option_batchers.clear()
        opened, self._opened, self._watch_streams = self._opened, None, None
        if opened is not None:
            await opened.aclose()

    def leave_to_parent(self) -> None:
        """Refuses every further call in a forked process, if the parent has used the client."""
        if self._opened is None:
            return
        self._closed, self._closed_error = True, forked
        self._batchers.clear()
        self._option_batchers.clear()
        # The tasks have calls of gRPC, which would tell the server when they are deleted.
        keep(self._opened, self._watch_streams, *asyncio.all_tasks(self._loop))
        self._opened = self._watch_streams = None

    async def __aenter__(self) -> Self:
        self._dispatcher()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    def __del__(self, _warn: Any = warnings.warn) -> None:
        if getattr(self, "_opened", None) is not None:
            _warn(
                f"{self!r} was never closed: use `async with`, or await aclose()",
                ResourceWarning,
                source=self,
            )

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open" if self._opened else "not opened yet"
        return f"<QueryableStateClient of {', '.join(self._addresses)}, {state}>"

    def _dispatcher(self) -> Dispatcher:
        if self._closed:
            raise self._closed_error()
        loop = running_loop()
        if loop is None:
            raise ClientUnusableError(
                "the client was called outside of a running event loop: call it in a coroutine, or "
                "use queryable_state.client.blocking"
            )
        if self._opened is not None and self._loop is not loop:
            raise ClientUnusableError(
                "the client belongs to the event loop it was first used on: open one on each loop, "
                "or share one of queryable_state.client.blocking"
            )
        if self._opened is None:
            check_process()
            self._loop = loop
            self._opened = Dispatcher(
                self._addresses,
                client=client_name(),
                connector=self._connector,
                unpickle=self._unpickle,
                direct=self._direct,
                credentials=self._credentials,
            )
        return self._opened

    def _batcher(
        self, job: Job, state_name: str, options: ReadOptions, operation: Operation = VALUE
    ) -> KeyBatcher:
        """Returns the batcher of a call; raises if an argument is invalid."""
        if not options:
            return self._create_batcher(job, state_name, options, operation)
        # With types: True equals 1 but is no valid timeout.
        arguments = (job, state_name, operation, *options.items(), *map(type, options.values()))
        batchers = self._option_batchers
        try:
            batcher = batchers.get(arguments)
        except TypeError:
            # An argument, such as a descriptor, is not hashable.
            return self._create_batcher(job, state_name, options, operation)
        if batcher is None:
            batcher = self._create_batcher(job, state_name, options, operation)
            if len(batchers) >= MAX_OPTION_BATCHERS:
                del batchers[next(iter(batchers))]
            batchers[arguments] = batcher
        elif not batcher.scheduled:
            # Raises if the earlier call was on another loop; once a turn of the loop is enough.
            self._dispatcher()
        return batcher

    def _create_batcher(
        self, job: Job, state_name: str, options: ReadOptions, operation: Operation
    ) -> KeyBatcher:
        dispatcher = self._dispatcher()
        name = (job, state_name) if operation is VALUE else (job, state_name, operation)
        if not options:
            known = self._batchers.get(name)
            if known is not None:
                return known
        check_name(state_name)
        check_options(options)
        key_type, descriptor = options.get("key_type"), options.get("descriptor")
        timeout_s = options.get("timeout_s")
        expectation = None
        if key_type is not None or descriptor is not None:
            expectation = Expectation.of(key_type, descriptor)
        query = QueryOptions(
            timeout_s=self._timeout_s if timeout_s is None else checked_timeout(timeout_s),
            consistency=checked_consistency(options.get("consistency", Consistency.COMMITTED)),
            window=checked_window(options.get("window")),
            allow_incomplete=bool(options.get("allow_incomplete")),
            expectation=expectation,
            operation=operation,
        )
        batcher = dispatcher.batcher(dispatcher.locator.handle(job_text(job), state_name), query)
        if query == QueryOptions(self._timeout_s, operation=operation):
            self._batchers[name] = batcher
        return batcher

    def _seconds(self, timeout_s: float | None) -> float:
        return self._timeout_s if timeout_s is None else checked_timeout(timeout_s)

    def _failed(self, error: QueryableStateError) -> asyncio.Future[Any]:
        loop = running_loop()
        if loop is None:
            raise error
        future: asyncio.Future[Any] = loop.create_future()
        future.set_exception(error)
        return future
