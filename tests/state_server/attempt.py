"""An attempt of a task at one batch, as a state server sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import grpc.aio
from tests.waiting import DEADLINE_S

from queryable_state.internal.v1 import backend_pb2
from queryable_state.v1 import registration_pb2
from queryable_state.wire.changes import BlockSums, ChangeBlockBuilder
from queryable_state.wire.keys.key_groups import KeyGroups
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE, record_key
from queryable_state.wire.schema.types import TypeInfo, Types
from queryable_state.wire.status import error_from_call
from queryable_state.wire.values.value_codec import ValueCodec

if TYPE_CHECKING:
    from collections.abc import Iterable


PARALLELISM = 2
MAX_PARALLELISM = 128
KEYS = KeyGroups(Types.STRING(), MAX_PARALLELISM)
VALUES = ValueCodec.of(Types.STRING())


@dataclass
class Attempt:
    """One attempt of a task at one batch of one subtask, speaking to one server."""

    stub: Any
    query_id: bytes
    run_id: bytes
    batch_id: int
    subtask: int
    task_attempt: int
    execution: int = 1
    """Number of the execution of the operator in the task attempt."""
    parallelism: int = PARALLELISM
    begun: backend_pb2.BeginResponse = field(default_factory=backend_pb2.BeginResponse)
    operator_states: dict[str, Any] = field(default_factory=dict)
    """Operator states the operator has beside its keyed one: kinds by name."""
    value_type: TypeInfo = field(default_factory=Types.STRING)

    @property
    def subtask_proto(self) -> backend_pb2.Subtask:
        return backend_pb2.Subtask(
            query_id=self.query_id,
            operator_uid="op",
            index=self.subtask,
            parallelism=self.parallelism,
            max_parallelism=MAX_PARALLELISM,
        )

    @property
    def state_id(self) -> int:
        return self.begun.states[0].state_id

    async def call(self, rpc: Any, request: Any) -> Any:
        """The answer, or the refusal raised as the error it is."""
        try:
            return await rpc(request, timeout=DEADLINE_S)
        except grpc.aio.AioRpcError as failure:
            raise error_from_call(failure, "server") from None

    async def locate(self) -> None:
        """Asks the server for the owner: itself, where there was none."""
        request = backend_pb2.LocateSubtaskRequest(subtask=self.subtask_proto)
        await self.call(self.stub.LocateSubtask, request)

    async def shut_down(self) -> None:
        """Ends the server, as the coordinator does."""
        await self.call(self.stub.Shutdown, backend_pb2.ShutdownRequest())

    async def begin(self) -> Attempt:
        request = backend_pb2.BeginRequest(
            subtask=self.subtask_proto,
            run_id=self.run_id,
            batch_id=self.batch_id,
            task_attempt=self.task_attempt,
            operator_depth=1,
            operator_name="operator",
            execution=self.execution,
            states=[
                self._declared("last", registration_pb2.VALUE),
                *(self._declared(name, kind) for name, kind in self.operator_states.items()),
            ],
        )
        self.begun = await self.call(self.stub.Begin, request)
        return self

    def _declared(self, name: str, kind: Any) -> registration_pb2.StateRegistration:
        return registration_pb2.StateRegistration(
            job_id=self.query_id,
            operator_uid="op",
            operator_name="operator",
            operator_depth=1,
            state_name=name,
            queryable_name=name if kind == registration_pb2.VALUE else "",
            kind=kind,
            key_type=Types.STRING().to_proto(),
            value_types=[]
            if kind == registration_pb2.TIMER
            else [registration_pb2.SchemaVersion(version=1, type=self.value_type.to_proto())],
            max_parallelism=MAX_PARALLELISM,
        )

    async def fetch(self, *keys: str) -> dict[str, str]:
        request = backend_pb2.FetchRequest(
            subtask=self.subtask_proto,
            batch_id=self.batch_id,
            token=self.begun.token,
            fetches=[
                backend_pb2.StateFetch(
                    state_id=self.state_id, keys=[record_key(KEYS.wire_key(key)) for key in keys]
                )
            ],
        )
        response = await self.call(self.stub.Fetch, request)
        [result] = response.results
        found = [key for position, key in enumerate(keys) if position not in result.missing]
        return dict(zip(found, map(VALUES.decode, result.values), strict=True))

    def frames(
        self, values: dict[str, str], *, fingerprint: int = 0
    ) -> list[backend_pb2.PrepareRequest]:
        """What a task sends: its open frame, its blocks, its seal."""
        sums = BlockSums()
        builder = ChangeBlockBuilder(self.state_id, sums)
        for key, value in values.items():
            builder.put(record_key(KEYS.wire_key(key), VOID_NAMESPACE), VALUES.encode(value))
        blocks = builder.finish()
        seal = sums.seal(self.begun.token, fingerprint=fingerprint, row_count=len(values))
        return [
            self.open_frame(),
            *(backend_pb2.PrepareRequest(block=block) for block in blocks),
            backend_pb2.PrepareRequest(seal=seal),
        ]

    def open_frame(self) -> backend_pb2.PrepareRequest:
        return backend_pb2.PrepareRequest(
            open=backend_pb2.PrepareOpen(
                subtask=self.subtask_proto, batch_id=self.batch_id, token=self.begun.token
            )
        )

    async def send(
        self, frames: Iterable[backend_pb2.PrepareRequest]
    ) -> backend_pb2.PrepareResponse:
        response: backend_pb2.PrepareResponse = await self.call(self.stub.Prepare, iter(frames))
        return response

    async def prepare(
        self, values: dict[str, str], *, fingerprint: int = 0
    ) -> backend_pb2.PrepareResponse:
        return await self.send(self.frames(values, fingerprint=fingerprint))
