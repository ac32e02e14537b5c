"""A state server that holds nothing: it only speaks the coordinator's protocol."""

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
from queryable_state.wire.calls.job_secret import secret_metadata
from queryable_state.wire.errors import PlacementError, QueryableStateError, RetryLaterError
from queryable_state.wire.schema.types import Types
from queryable_state.wire.status import error_from_call

STATE_NAME = "simulated"
RENEWALS = 3
"""Heartbeats a lease, as of a state server."""
_CALL_S = 30.0
_RETRY_S = 0.1
_LOCAL = (
    # A connection of its own, as a server of another machine has.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", -1),
)


class SimulatedServer:
    """Registers, renews its lease, begins batches, and reports what it was told to have sealed."""

    def __init__(self, number: int, coordinator: str) -> None:
        self.server_id = f"{number}-{number:012x}"
        self.heartbeat_bytes = 0
        """Of the last heartbeat and the lease it was answered with."""
        self.heartbeats = 0
        self.committed = -1
        self._number = number
        self._channel = grpc.aio.insecure_channel(coordinator, options=_LOCAL)
        self._stub: Any = coordinator_pb2_grpc.CoordinatorStub(self._channel)
        self._server = grpc.aio.server()
        self._server.add_generic_rpc_handlers((self._answering(),))
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
        """Whether it has opened a subtask."""
        return bool(self._opened)

    async def listen(self) -> None:
        """Hears the coordinator from now on."""
        await self._server.start()

    async def register(self) -> None:
        """Takes its first lease and keeps it."""
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
        """Answers no more and renews no more, as one that was killed."""
        if self._heartbeats is not None:
            self._heartbeats.cancel()
            await asyncio.gather(self._heartbeats, return_exceptions=True)
        await self._server.stop(0)
        await self._channel.close()

    async def assign(self, subtask: backend_pb2.Subtask, not_server_id: str = "") -> str:
        """Asks for the owner of a subtask, until there is one; answers its id."""
        request = coordinator_pb2.AssignSubtaskRequest(
            subtask=subtask, server_id=self.server_id, not_server_id=not_server_id
        )
        response = await self._call(self._stub.AssignSubtask, request)
        return str(response.server_id)

    async def begin(self, subtask: backend_pb2.Subtask, run_id: bytes, batch_id: int) -> None:
        """Begins a batch of a subtask this server owns, and has it sealed at once."""
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
        """Asks where the state is, as a proxy does: also for the same owners again."""
        request = query_pb2.LocateStateRequest(
            state_name=STATE_NAME,
            known_state_id=self._location.registration.state_id,
            known_version=self._location.placement_version,
        )
        response: query_pb2.LocateStateResponse = await self._call(self._stub.LocateState, request)
        if not response.unchanged:
            self._location = response.location
        return response

    def _answering(self) -> grpc.GenericRpcHandler:
        """Of `StateBackend` what the coordinator asks."""

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
        # As servers that did not all start in one moment.
        await asyncio.sleep(self._number % 97 / 97 * self._lease.duration_ms / 1000 / RENEWALS)
        while True:
            request = coordinator_pb2.HeartbeatRequest(
                server_id=self.server_id, placement_version=self._lease.placement_version
            )
            if self._query_id:
                request.committed.add(query_id=self._query_id, version=self.committed)
            asked_at = time.monotonic()
            lease = self._lease = await self._call(self._stub.Heartbeat, request)
            self.heartbeats += 1
            for told in lease.committed:
                self.committed = max(self.committed, told.version)
            self.heartbeat_bytes = request.ByteSize() + lease.ByteSize()
            pause_s = lease.duration_ms / 1000 / RENEWALS
            await asyncio.sleep(max(0.0, pause_s - (time.monotonic() - asked_at)))

    async def _call(self, rpc: Any, request: object) -> Any:
        """Asks until it is answered; raises what is refused for good."""
        deadline = time.monotonic() + _CALL_S
        while True:
            try:
                return await rpc(
                    request, metadata=secret_metadata(SECRET), timeout=deadline - time.monotonic()
                )
            except grpc.aio.AioRpcError as failure:
                error: QueryableStateError = error_from_call(failure, "coordinator")
                if not isinstance(error, (RetryLaterError, PlacementError)):
                    raise error from None
                if time.monotonic() > deadline:
                    raise error from None
                await asyncio.sleep(max(_RETRY_S, error.retry_after_ms / 1000))
