"""Coordinator, state servers and jobs inside the test's process, over real sockets."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Self

import grpc.aio

from queryable_state.internal.v1 import backend_pb2, backend_pb2_grpc
from queryable_state.server.coordinator_link import secret_metadata
from queryable_state.server.query.proxy_server import ProxyServer
from queryable_state.server.settings import (
    CoordinatorSettings,
    ProxySettings,
    StateServerSettings,
)
from queryable_state.server.state_server.server import StateServer
from queryable_state.server.testing.coordinator import in_process_coordinator
from queryable_state.v1 import registration_pb2
from queryable_state.wire.changes import BlockSums, ChangeBlockBuilder
from queryable_state.wire.errors import PlacementError, RetryLaterError
from queryable_state.wire.key_groups import subtask_of
from queryable_state.wire.records import StateCodecs
from queryable_state.wire.status import error_from_call
from queryable_state.wire.store_keys import VOID_NAMESPACE, list_element, record_key
from queryable_state.wire.types import Types, type_info

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from queryable_state.server.testing.coordinator import InProcessCoordinator

    States = Mapping[str, Mapping[Any, Any]]

_DEADLINE_S = 20.0


def declare(
    queryable_name: str,
    key_type: object = "string",
    value_type: object = "bigint",
    *,
    kind: registration_pb2.StateKind.ValueType = registration_pb2.VALUE,
    map_key_type: object = None,
    max_parallelism: int = 128,
) -> registration_pb2.StateRegistration:
    """A state for `InProcessCluster.job`; types as `type_info` takes them."""
    state = registration_pb2.StateRegistration(
        state_name=queryable_name,
        queryable_name=queryable_name,
        kind=kind,
        key_type=type_info(key_type).to_proto(),
        value_types=[
            registration_pb2.SchemaVersion(version=1, type=type_info(value_type).to_proto())
        ],
        max_parallelism=max_parallelism,
    )
    if map_key_type is not None:
        state.map_key_type.CopyFrom(type_info(map_key_type).to_proto())
    if kind == registration_pb2.AGGREGATING:
        accumulator = registration_pb2.SchemaVersion(
            version=1, type=Types.PICKLED_BYTE_ARRAY().to_proto()
        )
        state.accumulator_types.append(accumulator)
    return state


class InProcessJob:
    """A query of one operator whose batches are written by hand."""

    def __init__(
        self,
        cluster: InProcessCluster,
        name: str,
        states: Sequence[registration_pb2.StateRegistration],
        parallelism: int,
    ) -> None:
        self._cluster = cluster
        self._states = states
        self._parallelism = parallelism
        self._max_parallelism = states[0].max_parallelism
        self.name = name
        self.query_id, self.run_id = cluster.coordinator.engine.start(name)

    @property
    def job_id(self) -> str:
        """32 hex digits."""
        return self.query_id.hex()

    async def run(self, batch_id: int, states: States) -> None:
        """Writes a batch on all subtasks and commits it.

        `states` has what each queryable name stores by key: a value, a list of
        elements to add, or a dict of entries to put. Returns once every owner
        answers from the batch.
        """
        await self.seal(batch_id, states)
        await self.commit(batch_id)

    async def seal(self, batch_id: int, states: States) -> None:
        """Writes a batch on all subtasks, uncommitted."""
        engine = self._cluster.coordinator.engine
        engine.plan(self.query_id, batch_id, timestamp_ms=1_000 * batch_id, watermark_ms=batch_id)
        await asyncio.gather(
            *(self._seal_retrying(index, batch_id, states) for index in range(self._parallelism))
        )

    async def commit(self, batch_id: int) -> None:
        """Commits a batch; returns once every server of the job knows."""
        coordinator = self._cluster.coordinator
        coordinator.engine.commit(self.query_id, batch_id)
        coordinator.coordinator.batch_committed(self.query_id, batch_id)
        async with asyncio.timeout(_DEADLINE_S):
            while any(version < batch_id for version in self._committed()):  # noqa: ASYNC110
                await asyncio.sleep(0.005)

    def _committed(self) -> Iterable[int]:
        for server in self._cluster.servers:
            job = server.table.job(self.query_id)
            if job is not None and job.subtasks:
                yield job.committed_version

    async def _seal_retrying(self, index: int, batch_id: int, states: States) -> None:
        """As a task does: another attempt while the subtask moves."""
        async with asyncio.timeout(_DEADLINE_S):
            while True:
                try:
                    return await self._seal_subtask(index, batch_id, states)
                except grpc.aio.AioRpcError as failure:
                    error = error_from_call(failure, "backend")
                    if not isinstance(error, PlacementError | RetryLaterError):
                        raise error from failure
                await asyncio.sleep(0.02)

    async def _seal_subtask(self, index: int, batch_id: int, states: States) -> None:
        subtask = backend_pb2.Subtask(
            query_id=self.query_id,
            operator_uid="operator",
            index=index,
            parallelism=self._parallelism,
            max_parallelism=self._max_parallelism,
        )
        servers = self._cluster.servers
        first = self._cluster.backend(servers[index % len(servers)].addresses.backend)
        owner = await first.LocateSubtask(
            backend_pb2.LocateSubtaskRequest(subtask=subtask), **self._cluster.call_options
        )
        backend = self._cluster.backend(owner.address)
        begun = await backend.Begin(
            backend_pb2.BeginRequest(
                subtask=subtask,
                run_id=self.run_id,
                batch_id=batch_id,
                task_attempt=next(self._cluster.attempts),
                operator_depth=1,
                operator_name="operator",
                states=[self._registration(state) for state in self._states],
            ),
            **self._cluster.call_options,
        )
        sums = BlockSums()
        frames = [
            backend_pb2.PrepareRequest(
                open=backend_pb2.PrepareOpen(subtask=subtask, batch_id=batch_id, token=begun.token)
            )
        ]
        rows = 0
        for state in begun.states:
            builder = ChangeBlockBuilder(state.state_id, sums)
            codecs = StateCodecs(state, pickle_values=True)
            for key, value in states.get(state.queryable_name, {}).items():
                wire_key = codecs.key_groups.wire_key(key)
                group = wire_key[0] << 8 | wire_key[1]
                if subtask_of(group, self._parallelism, self._max_parallelism) == index:
                    _put(builder, wire_key, value, codecs, batch_id)
                    rows += 1
            frames.extend(backend_pb2.PrepareRequest(block=block) for block in builder.finish())
        seal = sums.seal(begun.token, fingerprint=batch_id, row_count=rows)
        frames.append(backend_pb2.PrepareRequest(seal=seal))
        await backend.Prepare(iter(frames), **self._cluster.call_options)

    def _registration(
        self, state: registration_pb2.StateRegistration
    ) -> registration_pb2.StateRegistration:
        registration = registration_pb2.StateRegistration()
        registration.CopyFrom(state)
        registration.job_id = self.query_id
        registration.job_name = self.name
        registration.operator_uid = "operator"
        registration.operator_name = "operator"
        registration.operator_depth = 1
        return registration


def _put(
    builder: ChangeBlockBuilder, wire_key: bytes, value: Any, codecs: StateCodecs, batch_id: int
) -> None:
    if codecs.map_key is not None:
        for entry, entry_value in value.items():
            element = codecs.map_key.encode(entry)
            builder.put(
                record_key(wire_key, VOID_NAMESPACE, element), codecs.value.encode(entry_value)
            )
    else:
        is_list = codecs.kind == registration_pb2.LIST
        element = list_element(batch_id, 0) if is_list else b""
        builder.put(record_key(wire_key, VOID_NAMESPACE, element), codecs.value.encode(value))


class InProcessCluster:
    """A coordinator on an engine in memory and state servers that have joined it.

        async with InProcessCluster(directory, servers=2) as cluster:
            job = cluster.job("sensors", declare("last", "string", "double"))
            await job.run(0, {"last": {"sensor_1": 71.5}})

    Everything listens on free ports of the loopback address and ends with the
    `async with`; `directory` takes logs and store files.
    """

    def __init__(self, directory: Path, *, servers: int = 1, **settings: Any) -> None:
        """`settings` are those of the state servers, where they differ from the defaults."""
        self._directory = directory
        self._count = servers
        self._settings = settings
        self._stack = AsyncExitStack()
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._coordinator: InProcessCoordinator | None = None
        self.servers: list[StateServer] = []
        """Those that run; the first is the first one asked for even subtasks."""
        self.attempts = itertools.count(1)

    @property
    def coordinator(self) -> InProcessCoordinator:
        """The coordinator and its engine."""
        assert self._coordinator is not None
        return self._coordinator

    @property
    def call_options(self) -> dict[str, Any]:
        """What every internal call presents."""
        return {"metadata": secret_metadata(self.coordinator.secret), "timeout": _DEADLINE_S}

    def job(
        self, name: str, *states: registration_pb2.StateRegistration, parallelism: int = 2
    ) -> InProcessJob:
        """Starts a query with an operator that has these states."""
        return InProcessJob(self, name, states, parallelism)

    async def add_server(self) -> StateServer:
        """One more state server, as of another executor."""
        executor_id = f"executor-{next(self.attempts)}"
        fields: dict[str, Any] = {
            "coordinator_address": self.coordinator.address,
            "secret": self.coordinator.secret,
            "executor_id": executor_id,
            "directory": str(self._directory / executor_id),
            "query_ports": "0",
            "proxy_ports": "0",
            "drain_timeout_s": 0.2,
        }
        server = StateServer(StateServerSettings(**(fields | self._settings)))
        await self._stack.enter_async_context(server)
        self.servers.append(server)
        self.coordinator.engine.set_executors(len(self.servers))
        return server

    async def stop_server(self, server: StateServer) -> None:
        """Ends a server, which gives up what it owns."""
        self.servers.remove(server)
        self.coordinator.engine.set_executors(len(self.servers))
        await server.aclose()

    async def add_proxy(self, **settings: Any) -> ProxyServer:
        """A proxy of its own."""
        fields: dict[str, Any] = {
            "coordinator_address": self.coordinator.address,
            "secret": self.coordinator.secret,
            "ports": "0",
            "drain_timeout_s": 0.2,
        }
        proxy = ProxyServer(ProxySettings(**(fields | settings)))
        return await self._stack.enter_async_context(proxy)

    def backend(self, address: str) -> Any:
        """A stub of the `StateBackend` at an address."""
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = grpc.aio.insecure_channel(address)
            self._stack.push_async_callback(channel.close)
        return backend_pb2_grpc.StateBackendStub(channel)

    async def __aenter__(self) -> Self:
        settings = CoordinatorSettings(
            ports="0", lease_ms=1_500, lease_margin_ms=200, stop_timeout_s=2.0
        )
        self._coordinator = self._stack.enter_context(in_process_coordinator(settings=settings))
        for _ in range(self._count):
            await self.add_server()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stack.aclose()
