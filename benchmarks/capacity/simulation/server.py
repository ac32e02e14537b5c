"""A simulated state server without state: it implements only the coordinator's protocol."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import grpc
import grpc.aio

from benchmarks.capacity.simulation.driver import SECRET
from queryable_state.internal.v1 import (
    backend_pb2,
    coordinator_pb2,
    coordinator_pb2_grpc,
)
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import PlacementError, QueryableStateError, RetryLaterError
from queryable_state.wire.schema.types import Types
from queryable_state.wire.security.signed_calls import COORDINATOR, CallSigner, signed_stub
from queryable_state.wire.status import error_from_call

STATE_NAME = "simulated"
RENEWALS = 3
"""Heartbeats per lease, as those of a state server."""
_CALL_S = 30.0
_RETRY_S = 0.1
_LOCAL = (
    # A connection of its own, as that of a server on another machine.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", -1),
)


class SimulatedServer:
    """A server that registers, renews its lease, begins batches and reports sealed subtasks."""

    def __init__(self, number: int, coordinator: str) -> None:
        self.server_id = f"{number}-{number:012x}"
        self.heartbeat_bytes = 0
        """Bytes of the last heartbeat and its answer."""
        self.heartbeats = 0
        self.committed = -1
        self._number = number
        self._channel = grpc.aio.insecure_channel(coordinator, options=_LOCAL)
        self._stub: Any = signed_stub(
            coordinator_pb2_grpc.CoordinatorStub(self._channel), COORDINATOR, CallSigner(SECRET)
        )
        self._server = grpc.aio.server()
        self._server.add_generic_rpc_handlers((self._handler(),))
        port = self._server.add_insecure_port("127.0.0.1:0")
        self._address = f"127.0.0.1:{port}"
        self._lease = coordinator_pb2.Lease()
        self._location = registration_pb2.StateLocation()
        self._query_id = b""
        self._sealed: list[backend_pb2.SealedSubtask] = []
        self._opened: set[int] = set()
        self._registered = False
        self._begun: dict[int, asyncio.Task[None]] = {}
        self._heartbeats: asyncio.Task[None] | None = None

    @property
    def owns_any(self) -> bool:
        """True if it has opened a subtask."""
        return bool(self._opened)

    async def listen(self) -> None:
        """Starts to listen to the coordinator."""
        await self._server.start()

    async def register(self) -> None:
        """Takes the first lease and starts to renew it."""
        self._lease = await self._call(
            self._stub.RegisterServer,
            coordinator_pb2.RegisterServerRequest(
                server_id=self.server_id,
                executor_id=str(self._number),
                query_address=f"10.0.{self._number >> 8}.{self._number & 255}:9067",
                proxy_address=f"10.0.{self._number >> 8}.{self._number & 255}:9069",
                backend_address=self._address,
                pid=self._number,
            ),
        )
        self._heartbeats = asyncio.create_task(self._renew())

    async def stop(self) -> None:
        """Stops answering and renewing, as a killed server."""
        if self._heartbeats is not None:
            self._heartbeats.cancel()
            await asyncio.gather(self._heartbeats, return_exceptions=True)
        await self._server.stop(0)
        await self._channel.close()

    async def assign(self, subtask: backend_pb2.Subtask, not_server_id: str = "") -> str:
        """Requests the owner of a subtask until it has one; returns its id."""
        request = coordinator_pb2.AssignSubtaskRequest(
            subtask=subtask, server_id=self.server_id, not_server_id=not_server_id
        )
        response = await self._call(self._stub.AssignSubtask, request)
        return str(response.server_id)

    async def begin(self, subtask: backend_pb2.Subtask, run_id: bytes, batch_id: int) -> None:
        """Begins a batch of an own subtask and seals it at once."""
        self._query_id = subtask.query_id
        beginning = self._begun.get(batch_id)
        if beginning is None:
            beginning = self._begun[batch_id] = asyncio.create_task(
                self._begin_batch(subtask, run_id, batch_id)
            )
        await beginning
        if subtask.index not in self._opened:
            await self._call(
                self._stub.OpenSubtask,
                coordinator_pb2.OpenSubtaskRequest(
                    subtask=subtask, server_id=self.server_id, batch_id=batch_id
                ),
            )
            self._opened.add(subtask.index)
        if not self._registered:
            self._registered = True
            await self._register_states(subtask)
        self._sealed.append(
            backend_pb2.SealedSubtask(
                operator_uid=subtask.operator_uid,
                subtask=subtask.index,
                batch_id=batch_id,
                fingerprints=[batch_id],
                row_count=1,
            )
        )

    async def locate(self) -> query_pb2.LocateStateResponse:
        """Locates the state, as a proxy does, with the version it knows."""
        request = query_pb2.LocateStateRequest(
            state_name=STATE_NAME,
            known_state_id=self._location.registration.state_id,
            known_version=self._location.placement_version,
        )
        response: query_pb2.LocateStateResponse = await self._call(self._stub.LocateState, request)
        if not response.unchanged:
            self._location = response.location
        return response

    def _handler(self) -> grpc.GenericRpcHandler:
        """The RPCs of `StateBackend` that the coordinator calls."""

        async def commit(
            request: backend_pb2.CommitRequest, context: object
        ) -> backend_pb2.CommitResponse:
            self.committed = request.version
            sealed, self._sealed = self._sealed, []
            return backend_pb2.CommitResponse(sealed=sealed)

        async def shutdown(
            request: backend_pb2.ShutdownRequest, context: object
        ) -> backend_pb2.ShutdownResponse:
            return backend_pb2.ShutdownResponse()

        return grpc.method_handlers_generic_handler(
            "queryable_state.internal.v1.StateBackend",
            {
                "Commit": grpc.unary_unary_rpc_method_handler(
                    commit,
                    backend_pb2.CommitRequest.FromString,
                    backend_pb2.CommitResponse.SerializeToString,
                ),
                "Shutdown": grpc.unary_unary_rpc_method_handler(
                    shutdown,
                    backend_pb2.ShutdownRequest.FromString,
                    backend_pb2.ShutdownResponse.SerializeToString,
                ),
            },
        )

    async def _begin_batch(
        self, subtask: backend_pb2.Subtask, run_id: bytes, batch_id: int
    ) -> None:
        await self._call(
            self._stub.BeginBatch,
            coordinator_pb2.BeginBatchRequest(
                query_id=subtask.query_id,
                run_id=run_id,
                batch_id=batch_id,
                server_id=self.server_id,
            ),
        )
        self._begun.pop(batch_id - 1, None)

    async def _register_states(self, subtask: backend_pb2.Subtask) -> None:
        await self._call(
            self._stub.RegisterStates,
            coordinator_pb2.RegisterStatesRequest(
                subtask=subtask,
                operator_name="simulated",
                states=[
                    registration_pb2.StateRegistration(
                        state_name=STATE_NAME,
                        queryable_name=STATE_NAME,
                        kind=registration_pb2.VALUE,
                        key_type=Types.STRING().to_proto(),
                        value_types=[
                            registration_pb2.SchemaVersion(version=1, type=Types.LONG().to_proto())
                        ],
                        max_parallelism=subtask.max_parallelism,
                    )
                ],
            ),
        )

    async def _renew(self) -> None:
        # Spreads the renewals, as those of servers that started at different times.
        await asyncio.sleep(self._number % 97 / 97 * self._lease.duration_ms / 1000 / RENEWALS)
        while True:
            request = coordinator_pb2.HeartbeatRequest(
                server_id=self.server_id, placement_version=self._lease.placement_version
            )
            if self._query_id:
                request.committed.add(query_id=self._query_id, version=self.committed)
            sent_at = time.monotonic()
            lease = self._lease = await self._call(self._stub.Heartbeat, request)
            self.heartbeats += 1
            for each in lease.committed:
                self.committed = max(self.committed, each.version)
            self.heartbeat_bytes = request.ByteSize() + lease.ByteSize()
            pause_s = lease.duration_ms / 1000 / RENEWALS
            await asyncio.sleep(max(0.0, pause_s - (time.monotonic() - sent_at)))

    async def _call(self, rpc: Any, request: object) -> Any:
        """Retries until there is an answer; raises errors that a retry does not cure."""
        deadline = time.monotonic() + _CALL_S
        while True:
            try:
                return await rpc(request, timeout=deadline - time.monotonic())
            except grpc.aio.AioRpcError as failure:
                error: QueryableStateError = error_from_call(failure, "coordinator")
                if not isinstance(error, (RetryLaterError, PlacementError)):
                    raise error from None
                if time.monotonic() > deadline:
                    raise error from None
                await asyncio.sleep(max(_RETRY_S, error.retry_after_ms / 1000))
