"""Cluster in the test's process: coordinator, state servers and jobs over real sockets."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import pickle
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import grpc.aio

from queryable_state.internal.v1 import backend_pb2, backend_pb2_grpc, checkpoint_pb2
from queryable_state.internal.v1.changes_pb2 import KeyRows
from queryable_state.server.checkpoint.layout import beside
from queryable_state.server.coordinator import OperatorLayout
from queryable_state.server.coordinator.settings import CoordinatorSettings
from queryable_state.server.query.proxy.proxy_server import ProxyServer
from queryable_state.server.security.access.access_settings import AccessSettings
from queryable_state.server.security.tls_settings import TlsSettings
from queryable_state.server.serving.listen_settings import ANY_PORTS
from queryable_state.server.settings.proxy_settings import ProxySettings
from queryable_state.server.state_server.server import StateServer
from queryable_state.server.state_server.settings import StateServerSettings
from queryable_state.server.testing.changes import operator_elements, put_changes
from queryable_state.server.testing.coordinator import in_process_coordinator
from queryable_state.v1 import registration_pb2
from queryable_state.wire.changes import BlockSums, ChangeBlockBuilder
from queryable_state.wire.errors import PlacementError, RetryLaterError
from queryable_state.wire.keys.key_groups import subtask_of
from queryable_state.wire.keys.time_window import TIME_WINDOW_TYPE
from queryable_state.wire.operator_state import OPERATOR_KINDS, SUBTASK_TYPE
from queryable_state.wire.schema.types import Types, type_info
from queryable_state.wire.security.signed_calls import BACKEND, CallSigner, signed_stub
from queryable_state.wire.state_codecs import StateCodecs
from queryable_state.wire.status import error_from_call

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from queryable_state.server.coordinator import JobConfig
    from queryable_state.server.testing.coordinator import InProcessCoordinator
    from queryable_state.server.testing.engine import InMemoryEngine

    States = Mapping[str, Mapping[Any, Any]]

__all__ = ["InProcessCluster", "InProcessJob", "corrupt", "declare", "windowed"]

_DEADLINE_S = 20.0


class InProcessCluster:
    """A coordinator on a stream engine in memory and its state servers.

        async with InProcessCluster(directory, servers=2) as cluster:
            job = cluster.job("sensors", declare("last", "string", "double"))
            await job.run(0, {"last": {"sensor_1": 71.5}})

    All servers listen on free ports of the loopback address and end with the
    `async with`; `directory` holds logs, store files, and the state of durable jobs:

        job = cluster.job("sensors", declare("last", "string", "double"), durable=True)
        await job.run(0, {"last": {"sensor_1": 71.5}})
        await job.checkpoint()
        await cluster.kill_server(cluster.servers[0])
        await cluster.add_server()
        await job.run(1, {"last": {"sensor_2": 69.0}})

    To simulate a driver restart, make a cluster on the directory and the `engine` of an
    ended one.
    """

    def __init__(
        self,
        directory: Path,
        *,
        servers: int = 1,
        config: JobConfig | None = None,
        engine: InMemoryEngine | None = None,
        lease_ms: int = 1_500,
        reopen_after_ms: int = 200,
        frame_ports: str = "0",
        coordinator_host: str = "127.0.0.1",
        driver_metrics_ports: str = "",
        tls: TlsSettings | None = None,
        **settings: Any,
    ) -> None:
        """`config` is the default of all jobs; `settings` are those of the state servers.

        `frame_ports`: of servers and proxies; empty: none. `tls`: of every port, also of the
        coordinator and of proxies; None: clear text.
        """
        self._frame_ports, self._coordinator_host = frame_ports, coordinator_host
        self._driver_metrics_ports = driver_metrics_ports
        self._tls = tls or TlsSettings()
        self._connector = self._tls.connector()
        self._lease_ms = lease_ms
        self._reopen_after_ms = reopen_after_ms
        self._directory = directory
        self._count = servers
        self._config = config
        self._engine = engine
        self._settings = settings
        self._stack = AsyncExitStack()
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._coordinator: InProcessCoordinator | None = None
        self.servers: list[StateServer] = []
        """The running servers; a task of subtask i calls server i modulo their number first."""
        self.attempts: Iterator[int] = itertools.count(1)

    @property
    def coordinator(self) -> InProcessCoordinator:
        """The coordinator and its engine."""
        assert self._coordinator is not None
        return self._coordinator

    @property
    def call_options(self) -> dict[str, Any]:
        """Options of every internal call: its timeout."""
        return {"timeout": _DEADLINE_S}

    def job(
        self,
        name: str,
        *states: registration_pb2.StateRegistration,
        parallelism: int = 2,
        durable: bool = False,
        query_id: bytes | None = None,
    ) -> InProcessJob:
        """Starts a query whose operator has these states; with a known id, a new run of it."""
        location = str(self._directory / "jobs" / name) if durable else ""
        return InProcessJob(
            self, name, states, parallelism, checkpoint_location=location, query_id=query_id
        )

    async def add_server(self, *, executor_id: str = "") -> StateServer:
        """Starts a state server, on a new executor unless one is named."""
        executor_id = executor_id or f"executor-{next(self.attempts)}"
        fields: dict[str, Any] = {
            "coordinator_address": self.coordinator.address,
            "secret": self.coordinator.secret,
            "executor_id": executor_id,
            "directory": str(self._directory / executor_id),
            "ports": dataclasses.replace(
                ANY_PORTS,
                server_frame_ports=self._frame_ports,
                proxy_frame_ports=self._frame_ports,
            ),
            "drain_timeout_s": 0.2,
            "tls": self._tls,
        }
        server = StateServer(StateServerSettings(**(fields | self._settings)))
        await self._stack.enter_async_context(server)
        self.servers.append(server)
        self.coordinator.engine.set_executors(len(self.servers))
        return server

    async def stop_server(self, server: StateServer) -> None:
        """Stops a server, which releases its subtasks."""
        self.servers.remove(server)
        self.coordinator.engine.set_executors(len(self.servers))
        await server.aclose()

    async def kill_server(self, server: StateServer) -> None:
        """Ends a server and its executor as a crash does, without releasing its subtasks."""
        self.servers.remove(server)
        self.coordinator.engine.set_executors(len(self.servers))
        await server.kill()

    async def respawn_server(self, server: StateServer) -> StateServer:
        """Kills a server and starts another one for its executor, on the same directory."""
        await self.kill_server(server)
        return await self.add_server(executor_id=server.settings.executor_id)

    async def add_proxy(self, **settings: Any) -> ProxyServer:
        """Starts a standalone proxy."""
        fields: dict[str, Any] = {
            "coordinators": (self.coordinator.address,),
            "secret": self.coordinator.secret,
            "ports": "0",
            "frame_ports": self._frame_ports,
            "plain_grpc": self._settings.get("plain_grpc", False),
            "access": self._settings.get("access", AccessSettings()),
            "drain_timeout_s": 0.2,
            "tls": self._tls,
            "web": "off",
            "web_ports": "0",
        }
        proxy = ProxyServer(ProxySettings(**(fields | settings)))
        return await self._stack.enter_async_context(proxy)

    def backend(self, address: str) -> Any:
        """A stub of the `StateBackend` service at an address, which signs its calls."""
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = self._connector.channel(address, ())
            self._stack.push_async_callback(channel.close)
        return signed_stub(
            backend_pb2_grpc.StateBackendStub(channel),
            BACKEND,
            CallSigner(self.coordinator.secret, address),
        )

    async def __aenter__(self) -> Self:
        settings = CoordinatorSettings(
            strict=False,
            host=self._coordinator_host,
            ports="0",
            lease_ms=self._lease_ms,
            lease_margin_ms=200,
            stop_timeout_s=2.0,
            reopen_after_ms=self._reopen_after_ms,
            driver_metrics_ports=self._driver_metrics_ports,
            tls=self._tls,
            access=self._settings.get("access", AccessSettings()),
            insecure=self._settings.get("access", AccessSettings()).insecure,
        )
        self._coordinator = self._stack.enter_context(
            in_process_coordinator(settings=settings, engine=self._engine)
        )
        if self._config is not None:
            self._coordinator.coordinator.configure("", self._config)
        for _ in range(self._count):
            await self.add_server()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stack.aclose()


def corrupt(file: Path) -> None:
    """Flips a bit in the middle of a file, but not in its other hard links."""
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    damaged = file.with_name(f".{file.name}.damaged")
    damaged.write_bytes(data)
    damaged.replace(file)


def windowed(state: registration_pb2.StateRegistration) -> registration_pb2.StateRegistration:
    """The same state with a value for each window of a key, or with timers of windows.

    `InProcessJob.run` takes its changes in `Windows`.
    """
    state.namespace_type.CopyFrom(TIME_WINDOW_TYPE.to_proto())
    return state


def declare(
    queryable_name: str,
    key_type: object = "string",
    value_type: object = "bigint",
    *,
    kind: registration_pb2.StateKind.ValueType = registration_pb2.VALUE,
    map_key_type: object = None,
    max_parallelism: int = 128,
    ttl_ms: int = 0,
) -> registration_pb2.StateRegistration:
    """A state for `InProcessCluster.job`; types as `type_info` takes them (TIMER has no values)."""
    state = registration_pb2.StateRegistration(
        state_name=queryable_name,
        queryable_name=queryable_name,
        kind=kind,
        key_type=(SUBTASK_TYPE if kind in OPERATOR_KINDS else type_info(key_type)).to_proto(),
        value_types=[]
        if kind == registration_pb2.TIMER
        else [registration_pb2.SchemaVersion(version=1, type=type_info(value_type).to_proto())],
        max_parallelism=max_parallelism,
        ttl=registration_pb2.TimeToLive(ttl_ms=ttl_ms) if ttl_ms else None,
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
    """A query of one operator whose batches the test writes."""

    def __init__(
        self,
        cluster: InProcessCluster,
        name: str,
        states: Sequence[registration_pb2.StateRegistration],
        parallelism: int,
        *,
        checkpoint_location: str = "",
        query_id: bytes | None = None,
    ) -> None:
        self._cluster = cluster
        self._location = checkpoint_location
        self._states = states
        self._parallelism = parallelism
        self._max_parallelism = states[0].max_parallelism
        self.name = name
        self.updated_ms = time.time_ns() // 1_000_000  # timestamp of writes to states with a TTL
        self.clocks: tuple[int, int] | None = None
        """Timestamp and watermark of the next batches; None: 1000 N and N in batch N."""
        self.rows: Mapping[Any, int] = {}  # of a key in the next batches; default: one a write
        self.begun: dict[int, backend_pb2.BeginResponse] = {}
        """Answers to the begins of the newest batch, by subtask."""
        self.query_id, self.run_id = cluster.coordinator.engine.start(
            name, query_id=query_id, checkpoint_location=checkpoint_location
        )

    @property
    def job_id(self) -> str:
        """The query id as 32 hex digits."""
        return self.query_id.hex()

    @property
    def root(self) -> Path:
        """The folder of its durable state."""
        return Path(beside(self._location))

    def restart(self, *, parallelism: int | None = None) -> InProcessJob:
        """Starts a new run of the query; the earlier run has ended."""
        return InProcessJob(
            self._cluster,
            self.name,
            self._states,
            parallelism or self._parallelism,
            checkpoint_location=self._location,
            query_id=self.query_id,
        )

    def recover(self) -> bool:
        """Restores the state of earlier runs before a batch begins; False if there is none."""
        parallelism, groups = self._parallelism, self._max_parallelism
        layout = OperatorLayout(uid="operator", parallelism=parallelism, max_parallelism=groups)
        return self._cluster.coordinator.coordinator.recover(self.query_id, "", [layout])

    async def checkpoint(self) -> checkpoint_pb2.CheckpointMetadata:
        """Takes a checkpoint of the committed state of a durable job."""
        coordinator = self._cluster.coordinator.coordinator
        return await asyncio.to_thread(coordinator.trigger_checkpoint, self.query_id, _DEADLINE_S)

    async def run(self, batch_id: int, states: States) -> None:
        """Writes a batch on all subtasks and commits it.

        `states` maps queryable names to changes by key: a value, a list of elements to add
        (`ReplaceList` replaces the list), a dict of map entries to put (`NULL` for a null, None
        to remove the entry), or None to remove the key. Timers are such a dict: True registers a
        (clock, timestamp), None deletes it. Operator state is by subtask: the whole list of
        elements, or the dict of all entries. Returns once every owner answers from the batch.
        """
        await self.seal(batch_id, states)
        await self.commit(batch_id)

    async def begin(self, batch_id: int) -> None:
        """Begins a batch on all subtasks and writes nothing, as a killed task does."""
        await self._on_all(batch_id, None)

    def due(self) -> list[bytes]:
        """Index keys of the first due timers of the newest batch begun, of all subtasks."""
        return sorted(timer for begun in self.begun.values() for timer in begun.due.timers)

    async def next_timers(self, batch_id: int) -> tuple[int | None, int | None]:
        """The next timers after a committed batch, as the coordinator tells them."""
        coordinator = self._cluster.coordinator.coordinator
        await asyncio.to_thread(coordinator.settle, self.query_id, batch_id, _DEADLINE_S)
        return coordinator.next_timers(self.query_id)

    async def seal(
        self, batch_id: int, states: States, *, subtasks: Iterable[int] | None = None
    ) -> None:
        """Writes and seals a batch on all subtasks without committing it; or on these only, as if
        the run ended before the others."""
        await self._on_all(batch_id, states, subtasks)

    async def _on_all(
        self, batch_id: int, states: States | None, subtasks: Iterable[int] | None = None
    ) -> None:
        engine = self._cluster.coordinator.engine
        timestamp, watermark = self.clocks or (1_000 * batch_id, batch_id)
        engine.plan(self.query_id, batch_id, timestamp_ms=timestamp, watermark_ms=watermark)
        await asyncio.gather(
            *(
                self._retrying(index, batch_id, states)
                for index in (range(self._parallelism) if subtasks is None else subtasks)
            )
        )

    async def commit(self, batch_id: int) -> None:
        """Commits a batch; returns once every server of the job has committed it."""
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

    async def _retrying(self, index: int, batch_id: int, states: States | None) -> None:
        """Retries an attempt while the subtask moves, as a task does."""
        async with asyncio.timeout(_DEADLINE_S):
            while True:
                try:
                    return await self._attempt(index, batch_id, states)
                except grpc.aio.AioRpcError as failure:
                    error = error_from_call(failure, "backend")
                    if not isinstance(error, PlacementError | RetryLaterError):
                        raise error from failure
                await asyncio.sleep(0.02)

    async def _attempt(self, index: int, batch_id: int, states: States | None) -> None:
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
        self.begun[index] = begun
        if states is None:
            return
        sums = BlockSums()
        frames = [
            backend_pb2.PrepareRequest(
                open=backend_pb2.PrepareOpen(subtask=subtask, batch_id=batch_id, token=begun.token)
            )
        ]
        key_rows: Counter[bytes] = Counter()
        for state in begun.states:
            builder = ChangeBlockBuilder(state.state_id, sums)
            codecs = StateCodecs(state, pickler=pickle.dumps)
            if state.kind in OPERATOR_KINDS:
                written = states.get(state.queryable_name, {}).get(index)
                if written is not None:
                    builder.operator_state(operator_elements(written, codecs))
                frames.extend(backend_pb2.PrepareRequest(block=block) for block in builder.finish())
                continue
            for key, value in states.get(state.queryable_name, {}).items():
                wire_key = codecs.key_groups.wire_key(key)
                group = wire_key[0] << 8 | wire_key[1]
                if subtask_of(group, self._parallelism, self._max_parallelism) == index:
                    updated_ms = self.updated_ms if state.HasField("ttl") else None
                    put_changes(builder, wire_key, value, codecs, batch_id, updated_ms)
                    key_rows[wire_key] += self.rows.get(key, 1)
            frames.extend(backend_pb2.PrepareRequest(block=block) for block in builder.finish())
        seal = sums.seal(begun.token, fingerprint=batch_id, row_count=key_rows.total())
        keys, counts = list(key_rows), list(key_rows.values())
        seal.key_rows.MergeFrom(KeyRows(keys=keys, rows=counts, total=key_rows.total()))
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
