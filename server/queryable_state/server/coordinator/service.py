"""The RPCs of the coordinator.

`CoordinatorService` only translates: requests into calls of the leases, the batch
coordinator and the catalog, refusals into statuses.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, TypeVar

from queryable_state.internal.v1 import backend_pb2, coordinator_pb2, coordinator_pb2_grpc
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import (
    InternalError,
    InvalidRequestError,
    QueryableStateError,
    RetryLaterError,
)
from queryable_state.wire.located_state import location_answer
from queryable_state.wire.status import details_of, status_of, trailing_metadata

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    import grpc

    from queryable_state.internal.v1 import checkpoint_pb2
    from queryable_state.server.checkpoint.file_systems.storage import ObjectStore
    from queryable_state.server.coordinator.batch_coordinator import BatchCoordinator
    from queryable_state.server.coordinator.batches.catalog import Catalog
    from queryable_state.server.coordinator.batches.marker_batches import MarkerBatches
    from queryable_state.server.coordinator.checkpoints.savepoints import Savepoints
    from queryable_state.server.coordinator.recovery.batch_commits import Watcher
    from queryable_state.server.coordinator.servers.leases import Leases
    from queryable_state.server.coordinator.status.job_status import JobStatus
    from queryable_state.server.coordinator.status.load_table import LoadTable
    from queryable_state.server.coordinator.status.server_list import ServerList
    from queryable_state.v1 import status_pb2

_log = logging.getLogger(__name__)

_TURN_MS = 50

_Request = TypeVar("_Request")
_Response = TypeVar("_Response")


class CoordinatorService(coordinator_pb2_grpc.CoordinatorServicer):
    """Answers `Coordinator`, on the threads of a gRPC server."""

    def __init__(
        self,
        leases: Leases,
        batch_coordinator: BatchCoordinator,
        catalog: Catalog,
        watcher: Watcher,
        objects: ObjectStore,
        savepoints: Savepoints,
        marker_batches: MarkerBatches,
        job_status: JobStatus,
        servers: ServerList,
        load: LoadTable,
        *,
        waiting: int,
    ) -> None:
        self._leases = leases
        self._batch_coordinator = batch_coordinator
        self._catalog = catalog
        self._watcher = watcher
        self._objects = objects
        self._savepoints = savepoints
        self._marker_batches = marker_batches
        self._job_status = job_status
        self._servers = servers
        self._load = load
        # Calls that wait for servers or files may not use all threads: leases must be renewed
        # however many batches begin.
        self._waiting = threading.BoundedSemaphore(waiting)

    def RegisterServer(
        self, request: coordinator_pb2.RegisterServerRequest, context: grpc.ServicerContext
    ) -> coordinator_pb2.Lease:
        return _answer(self._leases.register, request, context)

    def Heartbeat(
        self, request: coordinator_pb2.HeartbeatRequest, context: grpc.ServicerContext
    ) -> coordinator_pb2.Lease:
        return _answer(self._leases.heartbeat, request, context)

    def DeregisterServer(
        self, request: coordinator_pb2.DeregisterServerRequest, context: grpc.ServicerContext
    ) -> coordinator_pb2.DeregisterServerResponse:
        _answer(lambda _: self._leases.deregister(request.server_id), request, context)
        _log.info("state server %s has left", request.server_id)
        return coordinator_pb2.DeregisterServerResponse()

    def AssignSubtask(
        self, request: coordinator_pb2.AssignSubtaskRequest, context: grpc.ServicerContext
    ) -> backend_pb2.LocateSubtaskResponse:
        return _answer(self._batch_coordinator.assign_subtask, request, context)

    def PlanRestore(
        self, request: coordinator_pb2.PlanRestoreRequest, context: grpc.ServicerContext
    ) -> checkpoint_pb2.RestorePlan:
        return _answer(self._in_turn(self._batch_coordinator.plan_restore), request, context)

    def OpenSubtask(
        self, request: coordinator_pb2.OpenSubtaskRequest, context: grpc.ServicerContext
    ) -> coordinator_pb2.OpenSubtaskResponse:
        return _answer(self._batch_coordinator.open_subtask, request, context)

    def BeginBatch(
        self, request: coordinator_pb2.BeginBatchRequest, context: grpc.ServicerContext
    ) -> coordinator_pb2.BeginBatchResponse:
        response = _answer(self._in_turn(self._batch_coordinator.begin_batch), request, context)
        self._watcher.wake()
        return response

    def RegisterStates(
        self, request: coordinator_pb2.RegisterStatesRequest, context: grpc.ServicerContext
    ) -> coordinator_pb2.RegisterStatesResponse:
        return _answer(self._in_turn(self._batch_coordinator.register_states), request, context)

    def LocateState(
        self, request: query_pb2.LocateStateRequest, context: grpc.ServicerContext
    ) -> query_pb2.LocateStateResponse:
        return _answer(self._locate, request, context)

    def PutObject(
        self, request: coordinator_pb2.PutObjectRequest, context: grpc.ServicerContext
    ) -> coordinator_pb2.PutObjectResponse:
        written = self._objects.put(request.path, request.data, request.exclusive)
        return coordinator_pb2.PutObjectResponse(written=written)

    def GetObject(
        self, request: coordinator_pb2.GetObjectRequest, context: grpc.ServicerContext
    ) -> coordinator_pb2.GetObjectResponse:
        data = self._objects.get(request.path)
        return coordinator_pb2.GetObjectResponse(found=data is not None, data=data or b"")

    def ListObjects(
        self, request: coordinator_pb2.ListObjectsRequest, context: grpc.ServicerContext
    ) -> coordinator_pb2.ListObjectsResponse:
        listed = self._objects.list(request.prefix)
        return coordinator_pb2.ListObjectsResponse(
            paths=[path for path, _ in listed], sizes=[size for _, size in listed]
        )

    def DeleteObject(
        self, request: coordinator_pb2.DeleteObjectRequest, context: grpc.ServicerContext
    ) -> coordinator_pb2.DeleteObjectResponse:
        self._objects.delete(request.path)
        return coordinator_pb2.DeleteObjectResponse()

    def TriggerSavepoint(
        self, request: coordinator_pb2.TriggerSavepointRequest, context: grpc.ServicerContext
    ) -> coordinator_pb2.TriggerSavepointResponse:
        def trigger(
            request: coordinator_pb2.TriggerSavepointRequest,
        ) -> coordinator_pb2.TriggerSavepointResponse:
            # The caller has given up and gets no answer, so the call must have no effect.
            path, version = self._savepoints.trigger(
                request.job,
                request.directory,
                stop=request.stop,
                timeout_s=context.time_remaining(),
            )
            return coordinator_pb2.TriggerSavepointResponse(path=path, version=version)

        return _answer(self._in_turn(trigger), request, context)

    def WantsBatch(
        self, request: coordinator_pb2.WantsBatchRequest, context: grpc.ServicerContext
    ) -> coordinator_pb2.WantsBatchResponse:
        return _answer(self._marker_batches.wanted, request, context)

    def ListJobs(
        self, request: query_pb2.ListJobsRequest, context: grpc.ServicerContext
    ) -> query_pb2.ListJobsResponse:
        return _answer(lambda _: self._job_status.list_jobs(), request, context)

    def ListStates(
        self, request: query_pb2.ListStatesRequest, context: grpc.ServicerContext
    ) -> query_pb2.ListStatesResponse:
        return _answer(
            lambda _: query_pb2.ListStatesResponse(states=self._catalog.list_states(request.job)),
            request,
            context,
        )

    def DescribeJob(
        self, request: status_pb2.DescribeJobRequest, context: grpc.ServicerContext
    ) -> status_pb2.JobDescription:
        return _answer(self._job_status.describe, request, context)

    def ListServers(
        self, request: status_pb2.ListServersRequest, context: grpc.ServicerContext
    ) -> status_pb2.ListServersResponse:
        return _answer(self._servers.list_servers, request, context)

    def ReportLoad(
        self, request: coordinator_pb2.ReportLoadRequest, context: grpc.ServicerContext
    ) -> coordinator_pb2.ReportLoadResponse:
        _answer(self._load.reported, request, context)
        return coordinator_pb2.ReportLoadResponse()

    def ReportFailedAttempt(
        self, request: backend_pb2.FailedAttempt, context: grpc.ServicerContext
    ) -> backend_pb2.ReportFailedAttemptResponse:
        _answer(self._job_status.attempt_failed, request, context)
        return backend_pb2.ReportFailedAttemptResponse()

    def _in_turn(self, ask: Callable[[_Request], _Response]) -> Callable[[_Request], _Response]:
        def asked(request: _Request) -> _Response:
            if not self._waiting.acquire(blocking=False):
                raise RetryLaterError(
                    "the coordinator has as many calls waiting as it may have",
                    retry_after_ms=_TURN_MS,
                )
            try:
                return ask(request)
            finally:
                self._waiting.release()

        return asked

    def _locate(self, request: query_pb2.LocateStateRequest) -> query_pb2.LocateStateResponse:
        if not request.state_name:
            raise InvalidRequestError("no state is named: state_name is its queryable name")
        return location_answer(request, self._catalog.locate(request.job, request.state_name))


def _answer(
    ask: Callable[[_Request], _Response], request: _Request, context: grpc.ServicerContext
) -> _Response:
    try:
        return ask(request)
    except QueryableStateError as error:
        _abort(context, error)
    except Exception:  # noqa: BLE001 - callers get our own errors only
        what = type(request).__name__
        _log.exception("%s failed", what)
        _abort(
            context,
            InternalError(f"the coordinator failed at {what}; the driver's log has the trace"),
        )


def _abort(context: grpc.ServicerContext, error: QueryableStateError) -> NoReturn:
    context.set_trailing_metadata(trailing_metadata(error))
    context.abort(status_of(error), details_of(error))
