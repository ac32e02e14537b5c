"""Queries that go on while proxies and drivers are restarted: of our client, and of plain gRPC."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import grpc
from tests.grpc_retries import SERVICE_CONFIG

from queryable_state.client import QueryableStateClient
from queryable_state.v1 import query_pb2, query_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from queryable_state.client import Tls

JOB = "orders"
STATE = "totals"
KEYS = tuple(f"customer_{number}" for number in range(10))
_IN_FLIGHT = 4


@dataclass
class Counts:
    """What became of the queries so far."""

    answered: int = 0
    failures: list[str] = field(default_factory=list)
    totals: dict[str, int] = field(default_factory=dict)
    """The newest total seen of each customer."""
    lost: list[str] = field(default_factory=list)
    """Totals that were lower than an earlier answer's: state that a restart has lost."""


class Load(ABC):
    """Queries of a few coroutines without a pause, on an event loop and a thread of their own."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.counts = Counts()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name=name)

    @abstractmethod
    async def _asking(self, stack: contextlib.AsyncExitStack) -> Callable[[str], Awaitable[int]]:
        """Opens the client; returns the query of one customer's total."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), f"{self.name} does not end"

    def more(self, number: int, timeout_s: float) -> None:
        """Waits for so many further answers."""
        wanted = self.counts.answered + number
        end_s = time.monotonic() + timeout_s
        while self.counts.answered < wanted:
            assert time.monotonic() < end_s, (
                f"{self.name}: {self.counts.answered} of {wanted} answers after {timeout_s:g} s; "
                f"last failures: {self.counts.failures[-3:]}"
            )
            time.sleep(0.02)

    def forgive(self) -> list[str]:
        """Returns and drops the failures so far."""
        failures, self.counts.failures = self.counts.failures, []
        return failures

    async def _run(self) -> None:
        async with contextlib.AsyncExitStack() as stack:
            ask = await self._asking(stack)
            await asyncio.gather(*(self._loop(ask, start) for start in range(_IN_FLIGHT)))

    async def _loop(self, ask: Callable[[str], Awaitable[int]], start: int) -> None:
        for key in itertools.islice(itertools.cycle(KEYS), start, None):
            if self._stop.is_set():
                return
            counts = self.counts
            before = counts.totals.get(key, 0)
            try:
                total = await ask(key)
            except Exception as failure:  # noqa: BLE001 - whatever a user would see
                counts.failures.append(f"{key}: {type(failure).__name__}: {failure}"[:600])
                await asyncio.sleep(0.1)
                continue
            counts.answered += 1
            if total < before:
                counts.lost.append(f"{key}: {before} was answered before {total}")
            counts.totals[key] = max(total, counts.totals.get(key, 0))


class PythonLoad(Load):
    """Queries of `QueryableStateClient`."""

    def __init__(self, name: str, addresses: Sequence[str], **options: Any) -> None:
        super().__init__(name)
        self._addresses, self._options = addresses, options

    async def _asking(self, stack: contextlib.AsyncExitStack) -> Callable[[str], Awaitable[int]]:
        client = await stack.enter_async_context(
            QueryableStateClient(addresses=self._addresses, **self._options)
        )

        async def ask(key: str) -> int:
            state = await client.get_kv_state(JOB, STATE, key)
            return int(state.get())

        return ask


class PlainLoad(Load):
    """Queries of a gRPC client that knows only the .proto files and gRPC's retry policy."""

    def __init__(self, name: str, addresses: Sequence[str], tls: Tls, token: str) -> None:
        super().__init__(name)
        self._target = "ipv4:" + ",".join(addresses)
        self._metadata = (("authorization", f"Bearer {token}"),)
        self._credentials = grpc.ssl_channel_credentials(Path(tls.ca).read_bytes())

    async def _asking(self, stack: contextlib.AsyncExitStack) -> Callable[[str], Awaitable[int]]:
        options = [
            ("grpc.service_config", SERVICE_CONFIG),
            # A list of addresses has no name of its own that a certificate could have.
            ("grpc.ssl_target_name_override", "localhost"),
        ]
        channel = await stack.enter_async_context(
            grpc.aio.secure_channel(self._target, self._credentials, options=options)
        )
        stub: Any = query_pb2_grpc.QueryableStateStub(channel)

        async def ask(key: str) -> int:
            request = query_pb2.GetKvStateRequest(
                job=JOB, state_name=STATE, key_json=json.dumps(key)
            )
            answer = await stub.GetKvState(request, timeout=10, metadata=self._metadata)
            return int(json.loads(answer.value_json))

        return ask
