"""The RPCs of the coordinator.

`CoordinatorService` only translates: requests into questions to the leases, the
authority and the catalog, refusals into statuses.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

from queryable_state.internal.v1 import backend_pb2, coordinator_pb2, coordinator_pb2_grpc
from queryable_state.server.coordinator.catalog import job_list
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import InternalError, InvalidRequestError, QueryableStateError
from queryable_state.wire.status import status_of, trailing_metadata

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    import grpc

    from queryable_state.server.coordinator.authority import Authority
    from queryable_state.server.coordinator.catalog import Catalog
    from queryable_state.server.coordinator.leases import Leases
    from queryable_state.server.coordinator.watcher import Watcher

_log = logging.getLogger(__name__)

_Request = TypeVar("_Request")
_Response = TypeVar("_Response")


class CoordinatorService(coordinator_pb2_grpc.CoordinatorServicer):
    """Answers `Coordinator`, on the threads of a gRPC server."""

    def __init__(
        self, leases: Leases, authority: Authority, catalog: Catalog, watcher: Watcher
    ) -> None:
        self._leases = leases
        self._authority = authority
        self._catalog = catalog
        self._watcher = watcher

    def RegisterServer(
        self, request: coordinator_pb2.RegisterServerRequest, context: grpc.ServicerContext
    ) -> coordinator_pb2.Lease:
        lease = _answer(self._leases.register, request, context)
        _log.info(
            "state server %s of executor %s registered: queries %s, proxy %s, backend %s",
            request.server_id,
            request.executor_id,
            request.query_address,
            request.proxy_address,
            request.backend_address,
        )
        return lease

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
        return _answer(self._authority.assign_subtask, request, context)

    def OpenSubtask(
        self, request: coordinator_pb2.OpenSubtaskRequest, context: grpc.ServicerContext
    ) -> coordinator_pb2.OpenSubtaskResponse:
        return _answer(self._authority.open_subtask, request, context)

    def BeginBatch(
        self, request: coordinator_pb2.BeginBatchRequest, context: grpc.ServicerContext
    ) -> coordinator_pb2.BeginBatchResponse:
        response = _answer(self._authority.begin_batch, request, context)
        self._watcher.wake()
        return response

    def RegisterStates(
        self, request: coordinator_pb2.RegisterStatesRequest, context: grpc.ServicerContext
    ) -> coordinator_pb2.RegisterStatesResponse:
        return _answer(self._authority.register_states, request, context)

    def LocateState(
        self, request: query_pb2.LocateStateRequest, context: grpc.ServicerContext
    ) -> query_pb2.LocateStateResponse:
        return _answer(self._locate, request, context)

    def ListJobs(
        self, request: query_pb2.ListJobsRequest, context: grpc.ServicerContext
    ) -> query_pb2.ListJobsResponse:
        return _answer(lambda _: job_list(self._catalog.list_jobs()), request, context)

    def ListStates(
        self, request: query_pb2.ListStatesRequest, context: grpc.ServicerContext
    ) -> query_pb2.ListStatesResponse:
        return _answer(
            lambda _: query_pb2.ListStatesResponse(states=self._catalog.list_states(request.job)),
            request,
            context,
        )

    def _locate(self, request: query_pb2.LocateStateRequest) -> query_pb2.LocateStateResponse:
        if not request.state_name:
            raise InvalidRequestError("no state is named: state_name is its queryable name")
        location = self._catalog.locate(request.job, request.state_name)
        return query_pb2.LocateStateResponse(location=location)


def _answer(
    ask: Callable[[_Request], _Response], request: _Request, context: grpc.ServicerContext
) -> _Response:
    try:
        return ask(request)
    except QueryableStateError as error:
        _abort(context, error)
    except Exception:  # noqa: BLE001 - every refusal leaves as one of ours
        what = type(request).__name__
        _log.exception("%s failed", what)
        _abort(
            context,
            InternalError(f"the coordinator failed at {what}; the driver's log has the trace"),
        )


def _abort(context: grpc.ServicerContext, error: QueryableStateError) -> NoReturn:
    context.set_trailing_metadata(trailing_metadata(error))
    context.abort(status_of(error), error.message)
