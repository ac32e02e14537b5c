"""Clients of the coordinator for all state servers."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import grpc
import grpc.aio

from queryable_state.internal.v1 import backend_pb2, backend_pb2_grpc
from queryable_state.wire.calls.channel_options import channel_options
from queryable_state.wire.calls.loop_thread import LoopThread
from queryable_state.wire.errors import QueryableStateError, Reason, RetryLaterError
from queryable_state.wire.security.connector import CLEAR_TEXT
from queryable_state.wire.security.signed_calls import BACKEND, CallSigner, signed_stub
from queryable_state.wire.status import error_from_call, is_refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from queryable_state.server.coordinator.model.commits import CommitRound
    from queryable_state.server.coordinator.servers.leases import Leases
    from queryable_state.wire.security.connector import Connector


_Response = TypeVar("_Response")

_GRACE_S = 30.0
_NEWS_AFTER_S = 30.0

_log = logging.getLogger(__name__)


def shutdown_servers(leases: Leases, clients: StateServerClients, timeout_s: float) -> None:
    """Tells all state servers to drain and exit, and waits until they have left."""
    # A server that cannot be reached is gone, or ends by itself when its lease expires.
    reached = clients.shutdown(leases.backend_addresses())
    staying = leases.wait_until_left(reached, timeout_s)
    if staying:
        _log.warning("state servers have not left within %g s: %s", timeout_s, ", ".join(staying))


class _Client(NamedTuple):
    channel: grpc.aio.Channel
    stub: backend_pb2_grpc.StateBackendAsyncStub
    signer: CallSigner


class UnreachableError(RetryLaterError):
    """The call ended without an answer: the server is gone, or the call was cancelled."""


class StateServerClients:
    """Clients of the `StateBackend` of each state server, by address. Thread-safe.

    Every method calls all servers at once and waits for them until the deadline; a server that
    fails is logged and left out of the result. All calls run on one event loop: blocking channels
    would need a thread for each server.
    """

    def __init__(self, secret: str, *, timeout_ms: int, connector: Connector = CLEAR_TEXT) -> None:
        self._connector = connector
        self._signer = CallSigner(secret)
        self._timeout_s = timeout_ms / 1000
        self._loop = LoopThread(
            "queryable-state-clients", cleanup=self._close_channels, stopped_error=_closed_error
        )
        self._lock = threading.Lock()
        self._generation = connector.generation
        self._replaced: set[asyncio.Task[None]] = set()
        # Kept with its channel, because creating a stub is expensive.
        self._clients: dict[str, _Client] = {}
        self._unreached_s: dict[str, float] = {}  # the first failed call, monotonic

    def sealed(
        self, query_id: bytes, version: int, addresses: Mapping[str, str]
    ) -> dict[str, list[backend_pb2.SealedSubtask]]:
        """The seals of uncommitted batches up to a version, by server that answers.

        `addresses` by server id.
        """
        request = backend_pb2.ReportSealsRequest(query_id=query_id, version=version)
        answers = self._ask(
            addresses.values(),
            lambda _, stub: stub.ReportSeals(request, timeout=self._timeout_s),
            f"seals of batch {version} of query {query_id.hex()}",
        )
        return _by_server(addresses, answers)

    def commit(self, commit_round: CommitRound) -> dict[str, list[backend_pb2.SealedSubtask]]:
        """Publishes a commit to servers; returns the seals of each server that has acked it."""
        commit = commit_round.commit
        request = backend_pb2.CommitRequest(
            query_id=commit_round.query_id,
            version=commit.version,
            commit_time_ms=commit.commit_time_ms,
            watermark_ms=commit.watermark_ms,
            stable_version=commit_round.stable_version,
        )
        answers = self._ask(
            commit_round.addresses.values(),
            lambda _, stub: stub.Commit(request, timeout=self._timeout_s),
            f"commit of batch {commit.version} of query {commit_round.query_id.hex()}",
        )
        return _by_server(commit_round.addresses, answers)

    def open_subtasks(
        self, requests: Mapping[str, backend_pb2.OpenSubtasksRequest], timeout_s: float
    ) -> list[QueryableStateError]:
        """Opens subtasks on servers, by address; returns the errors of those that failed."""
        outcomes = self._outcomes(
            requests,
            lambda address, stub: stub.OpenSubtasks(requests[address], timeout=timeout_s),
        )
        return [each for each in outcomes.values() if isinstance(each, QueryableStateError)]

    def snapshot(
        self, address: str, request: backend_pb2.SnapshotRequest, timeout_s: float
    ) -> SnapshotCall:
        """Starts a snapshot on one server; its failure is raised by reading the events."""

        async def started() -> Any:
            return self._client(address).stub.Snapshot(request, timeout=timeout_s)

        return SnapshotCall(self._loop, self._loop.call(started), f"state server {address}")

    def drop_query(self, query_id: bytes, addresses: Iterable[str]) -> set[str]:
        """Drops a query on servers; returns the addresses of those that have dropped it."""
        request = backend_pb2.DropQueryRequest(query_id=query_id)
        answers = self._ask(
            addresses,
            lambda _, stub: stub.DropQuery(request, timeout=self._timeout_s),
            f"drop of query {query_id.hex()}",
        )
        return set(answers)

    def shutdown(self, addresses: Iterable[str]) -> set[str]:
        """Tells servers to drain and exit; returns the addresses of those that answered."""
        answers = self._ask(
            addresses,
            lambda _, stub: stub.Shutdown(backend_pb2.ShutdownRequest(), timeout=self._timeout_s),
            "shutdown",
        )
        return set(answers)

    def keep(self, addresses: AbstractSet[str]) -> None:
        """Closes the channels to all other addresses."""
        for address in self._unreached_s.keys() - addresses:
            self._unreached_s.pop(address, None)
        with self._lock:
            gone = [
                self._clients.pop(address).channel for address in self._clients.keys() - addresses
            ]
        if gone:
            self._loop.call(lambda: _close(gone))

    def close(self) -> None:
        """Closes every channel, which ends running calls; idempotent."""
        self._loop.stop()

    def _ask(
        self,
        addresses: Iterable[str],
        call: Callable[[str, backend_pb2_grpc.StateBackendAsyncStub], Awaitable[_Response]],
        what: str,
    ) -> dict[str, _Response]:
        """The answers by address; servers that fail are logged and left out."""
        answers: dict[str, _Response] = {}
        for address, outcome in self._outcomes(addresses, call).items():
            if isinstance(outcome, QueryableStateError):
                _log.log(self._level_of(address, outcome), "%s: %s", what, outcome)
            else:
                self._unreached_s.pop(address, None)
                answers[address] = outcome
        return answers

    def _level_of(self, address: str, failure: QueryableStateError) -> int:
        """DEBUG for a server that does not answer: it is replaced once its lease has expired."""
        if failure.reason != Reason.UNAVAILABLE:
            return logging.WARNING
        now_s = time.monotonic()
        since_s = self._unreached_s.setdefault(address, now_s)
        return logging.DEBUG if now_s - since_s < _NEWS_AFTER_S else logging.WARNING

    def _outcomes(
        self,
        addresses: Iterable[str],
        call: Callable[[str, backend_pb2_grpc.StateBackendAsyncStub], Awaitable[_Response]],
    ) -> dict[str, _Response | QueryableStateError]:
        wanted = list(dict.fromkeys(addresses))
        if not wanted:
            return {}

        async def one(address: str) -> _Response | QueryableStateError:
            try:
                client = self._client(address)
                try:
                    return await call(address, client.stub)
                except grpc.aio.AioRpcError as failure:
                    if not client.signer.corrects(error_from_call(failure, address)):
                        raise
                return await call(address, client.stub)
            except grpc.aio.AioRpcError as failure:
                return error_from_call(failure, f"state server {address}")
            except asyncio.CancelledError:
                # A closed channel cancels its calls; no caller cancels the task.
                return UnreachableError(f"state server {address}: the call was cancelled")

        async def all_of_them() -> list[_Response | QueryableStateError]:
            return await asyncio.gather(*map(one, wanted))

        return dict(zip(wanted, self._loop.call(all_of_them), strict=True))

    async def _close_channels(self) -> None:
        with self._lock:
            channels = [each.channel for each in self._clients.values()]
            self._clients.clear()
        for closing in self._replaced:
            closing.cancel()
        await _close(channels)
        # Every call has ended with its channel; its caller must receive the error.
        callers = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*callers, return_exceptions=True)

    def _client(self, address: str) -> _Client:
        """Returns the client for an address; only on the loop."""
        with self._lock:
            generation = self._connector.generation
            if generation != self._generation:
                # The TLS files have changed; running calls keep the old connections for a while.
                self._generation = generation
                for replaced in self._clients.values():
                    closing = asyncio.create_task(replaced.channel.close(_GRACE_S))
                    self._replaced.add(closing)
                    closing.add_done_callback(self._replaced.discard)
                self._clients.clear()
            opened = self._clients.get(address)
            if opened is None:
                channel = self._connector.channel(address, channel_options())
                signer = self._signer.to(address)
                stub: backend_pb2_grpc.StateBackendAsyncStub = signed_stub(
                    backend_pb2_grpc.StateBackendStub(channel), BACKEND, signer
                )
                opened = self._clients[address] = _Client(channel, stub, signer)
            return opened


class SnapshotCall:
    """The events of a snapshot that one server writes, in order."""

    def __init__(self, loop: LoopThread, call: Any, server: str) -> None:
        self._loop = loop
        self._call = call
        self._server = server

    def __iter__(self) -> Iterator[backend_pb2.SnapshotEvent]:
        """The events; raises the server's refusal, or UnreachableError if it does not answer."""
        while (event := self._loop.call(self._read)) is not None:
            yield event

    def cancel(self) -> None:
        """Cancels the call; the server abandons the snapshot."""
        self._loop.call_soon(self._call.cancel)

    async def _read(self) -> backend_pb2.SnapshotEvent | None:
        try:
            event = await self._call.read()
        except grpc.aio.AioRpcError as failure:
            error = error_from_call(failure, self._server)
            if is_refusal(failure):
                raise error from None
            raise UnreachableError(str(error), reason=error.reason) from None
        except asyncio.CancelledError:
            raise UnreachableError(f"{self._server}: cancelled") from None
        return None if event is grpc.aio.EOF else event


def _by_server(
    addresses: Mapping[str, str],
    answers: Mapping[str, backend_pb2.ReportSealsResponse | backend_pb2.CommitResponse],
) -> dict[str, list[backend_pb2.SealedSubtask]]:
    return {
        server_id: list(answers[address].sealed)
        for server_id, address in addresses.items()
        if address in answers
    }


async def _close(channels: Iterable[grpc.aio.Channel]) -> None:
    for channel in channels:
        await channel.close()


def _closed_error() -> RetryLaterError:
    return RetryLaterError("the coordinator is closed and calls no state server any more")
