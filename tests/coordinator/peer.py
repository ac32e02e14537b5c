"""A state server that only speaks the coordinator's protocol, on a real socket."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NoReturn

import grpc
from tests.waiting import DEADLINE_S

from queryable_state.internal.v1 import (
    backend_pb2,
    backend_pb2_grpc,
    checkpoint_pb2,
    coordinator_pb2,
    coordinator_pb2_grpc,
)
from queryable_state.server.security.signature_check import SignatureCheck
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import QueryableStateError
from queryable_state.wire.schema.types import Types
from queryable_state.wire.security.authorization import authorization_of
from queryable_state.wire.security.signed_calls import (
    BACKEND,
    COORDINATOR,
    CallSigner,
    signed_stub,
)
from queryable_state.wire.status import error_from_call, status_of, trailing_metadata

if TYPE_CHECKING:
    from queryable_state.server.testing import InProcessCoordinator


class Peer(backend_pb2_grpc.StateBackendServicer):
    """What a state server is to the coordinator: it asks, and it hears of commits."""

    def __init__(self, coordinator: InProcessCoordinator, server_id: str, executor: str) -> None:
        self.server_id = server_id
        self.executor = executor
        self.commits: list[backend_pb2.CommitRequest] = []
        self.dropped: list[bytes] = []
        self.openings: list[backend_pb2.OpenSubtasksRequest] = []
        self.lost_openings = 0
        """How many times more it loses what it was told to open, once that is noted as open."""
        self.shutdowns = 0
        self.taken_version = 0
        self.seals: list[backend_pb2.SealedSubtask] = []
        self._heard = threading.Condition()
        self._server = grpc.server(ThreadPoolExecutor(4))
        backend_pb2_grpc.add_StateBackendServicer_to_server(self, self._server)
        port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()
        self.address = f"127.0.0.1:{port}"
        self._channel = grpc.insecure_channel(coordinator.address)
        self._stub = signed_stub(
            coordinator_pb2_grpc.CoordinatorStub(self._channel),
            COORDINATOR,
            CallSigner(coordinator.secret),
        )
        self._signatures = SignatureCheck(coordinator.secret, self.address)

    def ask(self, rpc: str, request: Any) -> Any:
        """One call to the coordinator; raises its refusal."""
        call = getattr(self._stub, rpc)
        try:
            return call(request, timeout=DEADLINE_S)
        except grpc.RpcError as failure:
            raise error_from_call(failure, "coordinator") from None

    def register(self) -> coordinator_pb2.Lease:
        request = coordinator_pb2.RegisterServerRequest(
            server_id=self.server_id,
            executor_id=self.executor,
            query_address=f"{self.server_id}:9067",
            proxy_address=f"{self.server_id}:9069",
            backend_address=self.address,
        )
        lease: coordinator_pb2.Lease = self.ask("RegisterServer", request)
        return lease

    def heartbeat(self, *committed: tuple[bytes, int]) -> coordinator_pb2.Lease:
        request = coordinator_pb2.HeartbeatRequest(
            server_id=self.server_id,
            committed=[
                coordinator_pb2.QueryVersion(query_id=query_id, version=version)
                for query_id, version in committed
            ],
            placement_version=self.taken_version,
        )
        lease: coordinator_pb2.Lease = self.ask("Heartbeat", request)
        self.taken_version = lease.placement_version
        return lease

    def assign(self, subtask: backend_pb2.Subtask, not_server: str = "") -> str:
        request = coordinator_pb2.AssignSubtaskRequest(
            subtask=subtask, server_id=self.server_id, not_server_id=not_server
        )
        server_id: str = self.ask("AssignSubtask", request).server_id
        return server_id

    def plan(self, subtask: backend_pb2.Subtask, batch_id: int) -> checkpoint_pb2.RestorePlan:
        request = coordinator_pb2.PlanRestoreRequest(
            subtask=subtask, server_id=self.server_id, batch_id=batch_id
        )
        plan: checkpoint_pb2.RestorePlan = self.ask("PlanRestore", request)
        return plan

    def open(self, subtask: backend_pb2.Subtask, batch_id: int, *, restored: bool = False) -> int:
        request = coordinator_pb2.OpenSubtaskRequest(
            subtask=subtask, server_id=self.server_id, batch_id=batch_id, restored=restored
        )
        complete_since: int = self.ask("OpenSubtask", request).complete_since_batch
        return complete_since

    def begin(
        self, query_id: bytes, run_id: bytes, batch_id: int, config_id: str = ""
    ) -> coordinator_pb2.BeginBatchResponse:
        request = coordinator_pb2.BeginBatchRequest(
            query_id=query_id,
            run_id=run_id,
            batch_id=batch_id,
            server_id=self.server_id,
            config_id=config_id,
        )
        response: coordinator_pb2.BeginBatchResponse = self.ask("BeginBatch", request)
        return response

    def register_timers(self, subtask: backend_pb2.Subtask) -> None:
        state = registration_pb2.StateRegistration(
            state_name="timers", kind=registration_pb2.TIMER, key_type=Types.STRING().to_proto()
        )
        request = coordinator_pb2.RegisterStatesRequest(subtask=subtask, states=[state])
        self.ask("RegisterStates", request)

    def register_states(
        self, subtask: backend_pb2.Subtask, *names: str, operator: str = ""
    ) -> list[registration_pb2.StateRegistration]:
        request = coordinator_pb2.RegisterStatesRequest(
            subtask=subtask,
            operator_name=operator,
            states=[
                registration_pb2.StateRegistration(
                    state_name=name,
                    queryable_name=name,
                    kind=registration_pb2.VALUE,
                    key_type=Types.STRING().to_proto(),
                    value_types=[
                        registration_pb2.SchemaVersion(version=1, type=Types.LONG().to_proto())
                    ],
                )
                for name in names
            ],
        )
        return list(self.ask("RegisterStates", request).states)

    def locate(self, job: str, state: str) -> registration_pb2.StateLocation:
        return self.relocate(job, state, registration_pb2.StateLocation()).location

    def relocate(
        self, job: str, state: str, known: registration_pb2.StateLocation
    ) -> query_pb2.LocateStateResponse:
        """Asks for a location of which one is known."""
        request = query_pb2.LocateStateRequest(
            job=job,
            state_name=state,
            known_state_id=known.registration.state_id,
            known_version=known.placement_version,
        )
        response: query_pb2.LocateStateResponse = self.ask("LocateState", request)
        return response

    def seal(
        self,
        subtask: backend_pb2.Subtask,
        batch_id: int,
        *fingerprints: int,
        changelog: checkpoint_pb2.ChangelogFile | None = None,
        timers: backend_pb2.NextTimers | None = None,
    ) -> None:
        """The report this peer gives with the next commit."""
        self.seals.append(
            backend_pb2.SealedSubtask(
                operator_uid=subtask.operator_uid,
                subtask=subtask.index,
                batch_id=batch_id,
                fingerprints=fingerprints or (1,),
                changelog=changelog,
                next_timers=timers,
            )
        )

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Returns when something heard makes the condition true; fails after the deadline."""
        with self._heard:
            assert self._heard.wait_for(condition, DEADLINE_S)

    def die(self) -> None:
        """Ends without a word."""
        self._server.stop(None).wait()

    def close(self) -> None:
        self.die()
        self._channel.close()

    def LocateSubtask(self, request: object, context: grpc.ServicerContext) -> NoReturn:
        _refuse(context)

    def ReportFailedAttempt(self, request: object, context: grpc.ServicerContext) -> NoReturn:
        _refuse(context)

    def OpenSubtasks(
        self, request: backend_pb2.OpenSubtasksRequest, context: grpc.ServicerContext
    ) -> backend_pb2.OpenSubtasksResponse:
        try:
            for subtask in request.subtasks:
                plan = self.plan(subtask, request.batch_id)
                self.open(subtask, request.batch_id, restored=plan.durable)
        except QueryableStateError as refusal:
            context.set_trailing_metadata(trailing_metadata(refusal))
            context.abort(status_of(refusal), refusal.message)
        with self._heard:
            self.openings.append(request)
            lost = self.lost_openings > 0
            self.lost_openings -= lost
            self._heard.notify_all()
        if lost:
            context.abort(grpc.StatusCode.UNAVAILABLE, "what was opened is lost")
        return backend_pb2.OpenSubtasksResponse()

    def Begin(self, request: object, context: grpc.ServicerContext) -> NoReturn:
        _refuse(context)

    def BeginAll(self, request: object, context: grpc.ServicerContext) -> NoReturn:
        _refuse(context)

    def FetchAll(self, request: object, context: grpc.ServicerContext) -> NoReturn:
        _refuse(context)

    def PrepareAll(self, request: object, context: grpc.ServicerContext) -> NoReturn:
        _refuse(context)

    def Fetch(self, request: object, context: grpc.ServicerContext) -> NoReturn:
        _refuse(context)

    def Prepare(self, request_iterator: object, context: grpc.ServicerContext) -> NoReturn:
        _refuse(context)

    def ReportSeals(
        self, request: backend_pb2.ReportSealsRequest, context: grpc.ServicerContext
    ) -> backend_pb2.ReportSealsResponse:
        with self._heard:
            sealed = [seal for seal in self.seals if seal.batch_id <= request.version]
        return backend_pb2.ReportSealsResponse(sealed=sealed)

    def Commit(
        self, request: backend_pb2.CommitRequest, context: grpc.ServicerContext
    ) -> backend_pb2.CommitResponse:
        self._signatures.check(
            authorization_of(context.invocation_metadata()), f"/{BACKEND}/Commit"
        )
        with self._heard:
            self.commits.append(request)
            due = [seal for seal in self.seals if seal.batch_id <= request.version]
            self.seals = [seal for seal in self.seals if seal.batch_id > request.version]
            self._heard.notify_all()
        return backend_pb2.CommitResponse(sealed=due)

    def Snapshot(self, request: object, context: grpc.ServicerContext) -> NoReturn:
        _refuse(context)

    def DropQuery(
        self, request: backend_pb2.DropQueryRequest, context: grpc.ServicerContext
    ) -> backend_pb2.DropQueryResponse:
        with self._heard:
            self.dropped.append(request.query_id)
            self._heard.notify_all()
        return backend_pb2.DropQueryResponse()

    def Shutdown(
        self, request: backend_pb2.ShutdownRequest, context: grpc.ServicerContext
    ) -> backend_pb2.ShutdownResponse:
        with self._heard:
            self.shutdowns += 1
            self._heard.notify_all()
        return backend_pb2.ShutdownResponse()


def _refuse(context: grpc.ServicerContext) -> NoReturn:
    context.abort(grpc.StatusCode.UNIMPLEMENTED, "the coordinator calls no such thing")


StartPeer = Callable[..., Peer]
SubtaskOf = Callable[..., backend_pb2.Subtask]
