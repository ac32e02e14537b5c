"""The way of the coordinator to the state servers."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, TypeVar

import grpc

from queryable_state.internal.v1 import backend_pb2, backend_pb2_grpc
from queryable_state.server.coordinator_link import secret_metadata
from queryable_state.wire.errors import QueryableStateError, RetryLaterError
from queryable_state.wire.status import error_from_call, is_refusal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from queryable_state.server.coordinator.commits import CommitRound

_Response = TypeVar("_Response")

_log = logging.getLogger(__name__)

_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.enable_http_proxy", 0),
)


class UnreachableError(RetryLaterError):
    """The call ended without a word of the server: it is gone, or the call was cancelled."""


class BackendLinks:
    """Channels to the `StateBackend` of each state server, one an address. Thread-safe.

    Every method calls all servers at once and waits for them, at most for the
    deadline; a server that fails is logged and left out of the answer.
    """

    def __init__(self, secret: str, *, timeout_ms: int) -> None:
        self._metadata = secret_metadata(secret)
        self._timeout_s = timeout_ms / 1000
        self._lock = threading.Lock()
        self._channels: dict[str, grpc.Channel] = {}

    def commit(self, commit_round: CommitRound) -> dict[str, list[backend_pb2.SealedSubtask]]:
        """Tells servers of a commit; answers what each that confirmed had sealed."""
        commit = commit_round.commit
        request = backend_pb2.CommitRequest(
            query_id=commit_round.query_id,
            version=commit.version,
            commit_time_ms=commit.commit_time_ms,
            watermark_ms=commit.watermark_ms,
            stable_version=commit_round.stable_version,
        )
        calls = {
            server_id: self._stub(address).Commit.future(
                request, timeout=self._timeout_s, metadata=self._metadata
            )
            for server_id, address in commit_round.addresses.items()
        }
        what = f"commit of batch {commit.version} of query {commit_round.query_id.hex()}"
        seals: dict[str, list[backend_pb2.SealedSubtask]] = {}
        for server_id, call in calls.items():
            response = _outcome(call, commit_round.addresses[server_id], what)
            if response is not None:
                seals[server_id] = list(response.sealed)
        return seals

    def open_subtasks(
        self, requests: Mapping[str, backend_pb2.OpenSubtasksRequest], timeout_s: float
    ) -> list[QueryableStateError]:
        """Has servers, by address, open subtasks; answers what each that failed has said."""
        calls = {
            address: self._stub(address).OpenSubtasks.future(
                request, timeout=timeout_s, metadata=self._metadata
            )
            for address, request in requests.items()
        }
        failures = []
        for address, call in calls.items():
            try:
                call.result()
            except grpc.RpcError as failure:
                failures.append(error_from_call(failure, f"state server {address}"))
            except grpc.FutureCancelledError:
                failures.append(UnreachableError(f"state server {address}: cancelled"))
        return failures

    def snapshot(
        self, address: str, request: backend_pb2.SnapshotRequest, timeout_s: float
    ) -> SnapshotCall:
        """Starts a snapshot on one server; its failure is raised by reading the events."""
        call = self._stub(address).Snapshot(request, timeout=timeout_s, metadata=self._metadata)
        return SnapshotCall(call, f"state server {address}")

    def drop_query(self, query_id: bytes, addresses: Iterable[str]) -> set[str]:
        """Tells servers to forget a query; answers which of them have."""
        request = backend_pb2.DropQueryRequest(query_id=query_id)
        calls = {
            address: self._stub(address).DropQuery.future(
                request, timeout=self._timeout_s, metadata=self._metadata
            )
            for address in addresses
        }
        what = f"drop of query {query_id.hex()}"
        return {address for address, call in calls.items() if _outcome(call, address, what)}

    def shutdown(self, addresses: Iterable[str]) -> set[str]:
        """Tells servers to drain and exit; answers which of them heard it."""
        calls = {
            address: self._stub(address).Shutdown.future(
                backend_pb2.ShutdownRequest(), timeout=self._timeout_s, metadata=self._metadata
            )
            for address in addresses
        }
        return {address for address, call in calls.items() if _outcome(call, address, "shutdown")}

    def keep(self, addresses: Collection[str]) -> None:
        """Closes the channels to all other addresses."""
        with self._lock:
            gone = {
                address: self._channels.pop(address)
                for address in list(self._channels)
                if address not in addresses
            }
        _close(gone)

    def close(self) -> None:
        """Closes every channel."""
        self.keep(())

    def _stub(self, address: str) -> backend_pb2_grpc.StateBackendStub:
        with self._lock:
            channel = self._channels.get(address)
            if channel is None:
                channel = grpc.insecure_channel(address, options=_OPTIONS)
                self._channels[address] = channel
        return backend_pb2_grpc.StateBackendStub(channel)


class SnapshotCall:
    """What one server says of a snapshot it writes, in the order it says it."""

    def __init__(self, call: Any, peer: str) -> None:
        self._call = call
        self._peer = peer

    def __iter__(self) -> Iterator[backend_pb2.SnapshotEvent]:
        """The events; raises the server's refusal, or UnreachableError where it said nothing."""
        try:
            yield from self._call
        except grpc.RpcError as failure:
            error = error_from_call(failure, self._peer)
            if is_refusal(failure):
                raise error from None
            raise UnreachableError(str(error), reason=error.reason) from None
        except grpc.FutureCancelledError:
            raise UnreachableError(f"{self._peer}: cancelled") from None

    def cancel(self) -> None:
        """Ends the call; the server gives the snapshot up."""
        self._call.cancel()


def _outcome(call: grpc.Future[_Response], address: str, what: str) -> _Response | None:
    try:
        return call.result()
    except grpc.RpcError as failure:
        error: QueryableStateError = error_from_call(failure, f"state server {address}")
    except grpc.FutureCancelledError:
        error = QueryableStateError("cancelled, because the coordinator stops")
    _log.warning("%s: %s", what, error)
    return None


def _close(channels: Mapping[str, grpc.Channel]) -> None:
    for channel in channels.values():
        channel.close()
