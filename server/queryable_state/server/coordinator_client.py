"""Client of state servers and proxies for the coordinator.

`CoordinatorClient` signs every call, adds a deadline, and translates gRPC errors; it neither caches
nor retries.
"""

from __future__ import annotations

import asyncio
import warnings
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

import grpc
import grpc.aio

from queryable_state.internal.v1 import coordinator_pb2_grpc
from queryable_state.wire.calls.channel_options import channel_options
from queryable_state.wire.errors import (
    InvalidRequestError,
    QueryableStateError,
    QueryTimeoutError,
    Reason,
    RetryLaterError,
)
from queryable_state.wire.security.connector import CLEAR_TEXT
from queryable_state.wire.security.signed_calls import COORDINATOR, CallSigner, signed_stub
from queryable_state.wire.security.tls_probe import TlsDiagnosis
from queryable_state.wire.status import error_from_call, is_refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from queryable_state.internal.v1 import backend_pb2, checkpoint_pb2, coordinator_pb2
    from queryable_state.v1 import query_pb2, status_pb2
    from queryable_state.wire.security.connector import Connector

_RETRY_AFTER_MS = 200
_GRACE_S = 30.0

_Request = TypeVar("_Request", contravariant=True)
_Response = TypeVar("_Response", covariant=True)


class _Rpc(Protocol[_Request, _Response]):
    def __call__(
        self,
        request: _Request,
        /,
        *,
        timeout: float | None,
    ) -> Awaitable[_Response]: ...


class CoordinatorUnreachableError(RetryLaterError):
    """The coordinator cannot be reached; the text has its address, and is for operators only."""


class CoordinatorSlowError(QueryTimeoutError):
    """The coordinator did not answer in time; the text has its address, for operators only."""


class CoordinatorClient:
    """Asyncio client of the `Coordinator` service on one channel.

    Each method is one RPC. It raises the coordinator's refusal (`AuthenticationError` for a wrong
    secret), `RetryLaterError` (UNAVAILABLE) if no coordinator answers at the address, or
    `QueryTimeoutError` after `timeout_s`. Used on the loop that created it. `aclose` is
    idempotent; pending calls then end with `RetryLaterError`.
    """

    def __init__(
        self,
        address: str,
        secret: str,
        *,
        connector: Connector = CLEAR_TEXT,
        timeout_s: float = 5.0,
    ) -> None:
        self._address = address
        self._connector = connector
        self._diagnosis = TlsDiagnosis(address, connector)
        self._signer = CallSigner(secret)
        self._timeout_s = timeout_s
        self._closed = False
        self._replaced: set[asyncio.Task[None]] = set()
        self._open()

    @property
    def address(self) -> str:
        """HOST:PORT of the coordinator."""
        return self._address

    def is_closed(self) -> bool:
        """True once `aclose` was called."""
        return self._closed

    async def register_server(
        self, request: coordinator_pb2.RegisterServerRequest, *, timeout_s: float | None = None
    ) -> coordinator_pb2.Lease:
        """Registers a server; returns its first lease."""
        return await self._call(self._current().RegisterServer, request, timeout_s)

    async def heartbeat(
        self, request: coordinator_pb2.HeartbeatRequest, *, timeout_s: float | None = None
    ) -> coordinator_pb2.Lease:
        """Renews the lease."""
        return await self._call(self._current().Heartbeat, request, timeout_s)

    async def deregister_server(
        self, request: coordinator_pb2.DeregisterServerRequest, *, timeout_s: float | None = None
    ) -> coordinator_pb2.DeregisterServerResponse:
        """Releases the subtasks of a drained server."""
        return await self._call(self._current().DeregisterServer, request, timeout_s)

    async def assign_subtask(
        self, request: coordinator_pb2.AssignSubtaskRequest, *, timeout_s: float | None = None
    ) -> backend_pb2.LocateSubtaskResponse:
        """The owner of a subtask; assigns one if there is none."""
        return await self._call(self._current().AssignSubtask, request, timeout_s)

    async def plan_restore(
        self, request: coordinator_pb2.PlanRestoreRequest, *, timeout_s: float | None = None
    ) -> checkpoint_pb2.RestorePlan:
        """The files that the owner of a subtask loads before it opens the store."""
        return await self._call(self._current().PlanRestore, request, timeout_s)

    async def open_subtask(
        self, request: coordinator_pb2.OpenSubtaskRequest, *, timeout_s: float | None = None
    ) -> coordinator_pb2.OpenSubtaskResponse:
        """Records that the owner opens the store of a subtask."""
        return await self._call(self._current().OpenSubtask, request, timeout_s)

    async def begin_batch(
        self, request: coordinator_pb2.BeginBatchRequest, *, timeout_s: float | None = None
    ) -> coordinator_pb2.BeginBatchResponse:
        """Begins a batch; returns its clocks, epoch and the newest commit."""
        return await self._call(self._current().BeginBatch, request, timeout_s)

    async def register_states(
        self, request: coordinator_pb2.RegisterStatesRequest, *, timeout_s: float | None = None
    ) -> coordinator_pb2.RegisterStatesResponse:
        """Registers the states of an operator; returns their ids."""
        return await self._call(self._current().RegisterStates, request, timeout_s)

    async def locate_state(
        self, request: query_pb2.LocateStateRequest, *, timeout_s: float | None = None
    ) -> query_pb2.LocateStateResponse:
        """A state's registration and owners."""
        return await self._call(self._current().LocateState, request, timeout_s)

    async def trigger_savepoint(
        self, request: coordinator_pb2.TriggerSavepointRequest, *, timeout_s: float | None = None
    ) -> coordinator_pb2.TriggerSavepointResponse:
        """Writes a savepoint of a running job."""
        return await self._call(self._current().TriggerSavepoint, request, timeout_s)

    async def put_object(
        self, request: coordinator_pb2.PutObjectRequest, *, timeout_s: float | None = None
    ) -> coordinator_pb2.PutObjectResponse:
        """Stores a file in the driver's memory."""
        return await self._call(self._current().PutObject, request, timeout_s)

    async def get_object(
        self, request: coordinator_pb2.GetObjectRequest, *, timeout_s: float | None = None
    ) -> coordinator_pb2.GetObjectResponse:
        """A file of the driver's memory."""
        return await self._call(self._current().GetObject, request, timeout_s)

    async def list_objects(
        self, request: coordinator_pb2.ListObjectsRequest, *, timeout_s: float | None = None
    ) -> coordinator_pb2.ListObjectsResponse:
        """The files of the driver's memory under a prefix."""
        return await self._call(self._current().ListObjects, request, timeout_s)

    async def delete_object(
        self, request: coordinator_pb2.DeleteObjectRequest, *, timeout_s: float | None = None
    ) -> coordinator_pb2.DeleteObjectResponse:
        """Removes a file of the driver's memory."""
        return await self._call(self._current().DeleteObject, request, timeout_s)

    async def list_jobs(
        self, request: query_pb2.ListJobsRequest, *, timeout_s: float | None = None
    ) -> query_pb2.ListJobsResponse:
        """The jobs that the coordinator knows."""
        return await self._call(self._current().ListJobs, request, timeout_s)

    async def list_states(
        self, request: query_pb2.ListStatesRequest, *, timeout_s: float | None = None
    ) -> query_pb2.ListStatesResponse:
        """The queryable states that the coordinator knows."""
        return await self._call(self._current().ListStates, request, timeout_s)

    async def describe_job(
        self, request: status_pb2.DescribeJobRequest, *, timeout_s: float | None = None
    ) -> status_pb2.JobDescription:
        """What the coordinator knows of a job."""
        return await self._call(self._current().DescribeJob, request, timeout_s)

    async def list_servers(
        self, request: status_pb2.ListServersRequest, *, timeout_s: float | None = None
    ) -> status_pb2.ListServersResponse:
        """The state servers that the coordinator knows."""
        return await self._call(self._current().ListServers, request, timeout_s)

    async def report_load(
        self, request: coordinator_pb2.ReportLoadRequest, *, timeout_s: float | None = None
    ) -> coordinator_pb2.ReportLoadResponse:
        """Reports the load of the calling process."""
        return await self._call(self._current().ReportLoad, request, timeout_s)

    async def report_failed_attempt(
        self, request: backend_pb2.FailedAttempt, *, timeout_s: float | None = None
    ) -> backend_pb2.ReportFailedAttemptResponse:
        """Reports that an attempt at a task fails."""
        return await self._call(self._current().ReportFailedAttempt, request, timeout_s)

    async def aclose(self) -> None:
        """Closes the channel; pending calls end with `RetryLaterError`."""
        if not self._closed:
            self._closed = True
            for closing in tuple(self._replaced):
                closing.cancel()
            await self._channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    def __del__(self, _warn: Any = warnings.warn) -> None:
        if not getattr(self, "_closed", True):
            _warn(f"unclosed client of coordinator {self._address}", ResourceWarning, source=self)

    async def _call(
        self, rpc: _Rpc[_Request, _Response], request: _Request, timeout_s: float | None
    ) -> _Response:
        if self.is_closed():
            raise self._closed_error()
        timeout = self._timeout_s if timeout_s is None else timeout_s
        try:
            try:
                response = await rpc(request, timeout=timeout)
            except grpc.aio.AioRpcError as failure:
                if not self._signer.corrects(self._translated(failure, timeout)):
                    raise
                response = await rpc(request, timeout=timeout)
        except grpc.aio.AioRpcError as failure:
            error = self._translated(failure, timeout)
            raise await self._diagnosis.explained(error) from failure
        except asyncio.CancelledError:
            # Closing the channel cancels the call, not the task that waits for it.
            task = asyncio.current_task()
            if self.is_closed() and task is not None and not task.cancelling():
                raise self._closed_error() from None
            raise
        self._diagnosis.succeeded()
        return response

    def _current(self) -> coordinator_pb2_grpc.CoordinatorAsyncStub:
        """The stub of the next call, on a new channel if the TLS files have changed."""
        if self._generation != self._connector.generation and not self._closed:
            closing = asyncio.get_running_loop().create_task(self._channel.close(_GRACE_S))
            self._replaced.add(closing)
            closing.add_done_callback(self._replaced.discard)
            self._open()
        return self._stub

    def _open(self) -> None:
        self._generation = self._connector.generation
        self._channel = self._connector.channel(self._address, channel_options())
        self._stub: coordinator_pb2_grpc.CoordinatorAsyncStub = signed_stub(
            coordinator_pb2_grpc.CoordinatorStub(self._channel), COORDINATOR, self._signer
        )

    def _translated(self, failure: grpc.aio.AioRpcError, timeout_s: float) -> QueryableStateError:
        return (
            self._closed_error() if self._closed else translated(failure, self._address, timeout_s)
        )

    def _closed_error(self) -> RetryLaterError:
        return RetryLaterError(f"the client of coordinator {self._address} is closed")


def translated(failure: grpc.RpcError, address: str, timeout_s: float) -> QueryableStateError:
    """Returns the error of a failed call to the coordinator at HOST:PORT."""
    error = error_from_call(failure, "the coordinator")
    if is_refusal(failure):
        return error
    call: Any = failure
    if error.reason == Reason.UNAVAILABLE:
        return CoordinatorUnreachableError(
            f"no coordinator answers at {address} ({call.details()}); it runs in the "
            f"driver of the job: check that the driver runs and that this address is reachable",
            retry_after_ms=_RETRY_AFTER_MS,
        )
    if error.reason == Reason.UNSUPPORTED:
        return InvalidRequestError(
            f"the server at {address} is no coordinator, but perhaps a proxy or a state server: a "
            "coordinator listens in the driver of the job, at port 6123 by default"
        )
    if error.reason == Reason.DEADLINE_EXCEEDED:
        return CoordinatorSlowError(f"coordinator {address} did not answer within {timeout_s:g} s")
    return error
