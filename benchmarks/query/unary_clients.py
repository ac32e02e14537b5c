"""Who makes plain unary `GetKvState` calls: Python in this process, Go in one of its own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

import grpc.aio

from benchmarks.closed_loop import LoopSample, closed_loop
from benchmarks.query.dataset import MAX_PARALLELISM, QUERYABLE_NAME, REVISION_LENGTH
from benchmarks.query.go_asking import GoAsking
from queryable_state.v1 import query_pb2, query_pb2_grpc
from queryable_state.wire.keys.key_groups import KeyGroups
from queryable_state.wire.schema.types import Types
from queryable_state.wire.values.value_codec import ValueCodec

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from benchmarks.query.dataset import Dataset


class UnaryKeys:
    """The keys of a dataset as requests, and what is right of their values."""

    def __init__(self, job_id: str, dataset: Dataset) -> None:
        wire_key = KeyGroups(Types.STRING(), MAX_PARALLELISM).wire_key
        encode = ValueCodec.of(Types.STRING()).encode
        self.requests = [
            query_pb2.GetKvStateRequest(
                job=job_id, state_name=QUERYABLE_NAME, encoded_key=wire_key(key)
            )
            for key in dataset.keys
        ]
        self.beginnings = [
            encode(dataset.value(number, 0))[:-REVISION_LENGTH] for number in range(dataset.size)
        ]
        """What a key's encoded value begins with at every revision."""

    def is_right(self, number: int, answer: Any) -> bool:
        """Whether the value is the key's, at any revision."""
        (value,) = answer.records.values
        return bool(value[:-REVISION_LENGTH] == self.beginnings[number])


class UnaryClient(Protocol):
    """A program that makes the calls."""

    name: str

    async def loop(self, in_flight: int, *, warm_up_s: float, seconds: float) -> LoopSample:
        """One closed loop; raises at the first failure or wrong answer."""
        ...

    async def failures(self, at_once: int) -> int:
        """Of so many calls that are begun together, those that failed or were answered wrong."""
        ...


class PythonClient:
    """`grpc.aio` in this process; `async with` opens and closes its channel."""

    name = "Python, grpc.aio"

    def __init__(self, address: str, keys: UnaryKeys, order: Sequence[int]) -> None:
        self._address = address
        self._keys = keys
        self._order = order

    async def __aenter__(self) -> PythonClient:
        self._channel = grpc.aio.insecure_channel(self._address)
        stub: Any = query_pb2_grpc.QueryableStateStub(self._channel)
        self._call = stub.GetKvState
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._channel.close()

    async def loop(self, in_flight: int, *, warm_up_s: float, seconds: float) -> LoopSample:
        return await closed_loop(
            self._ask,
            self._keys.is_right,
            self._order,
            in_flight=in_flight,
            warm_up_s=warm_up_s,
            seconds=seconds,
        )

    async def failures(self, at_once: int) -> int:
        numbers = [self._order[at % len(self._order)] for at in range(at_once)]
        answers = await asyncio.gather(*map(self._ask, numbers), return_exceptions=True)
        return sum(
            isinstance(answer, BaseException) or not self._keys.is_right(number, answer)
            for number, answer in zip(numbers, answers, strict=True)
        )

    def _ask(self, number: int) -> Awaitable[Any]:
        call: Awaitable[Any] = self._call(self._keys.requests[number], timeout=60)
        return call


class GoClient:
    """grpc-go in a process of its own; `async with` starts and ends it."""

    def __init__(self, address: str, keys: UnaryKeys, order: Sequence[int]) -> None:
        self.name = "Go"
        self._asking = GoAsking(
            address,
            [
                (keys.requests[number].SerializeToString(), keys.beginnings[number])
                for number in order
            ],
        )

    async def __aenter__(self) -> GoClient:
        await asyncio.to_thread(self._asking.__enter__)
        self.name = f"Go, grpc-go {self._asking.version}"
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await asyncio.to_thread(self._asking.__exit__)

    async def loop(self, in_flight: int, *, warm_up_s: float, seconds: float) -> LoopSample:
        found = await asyncio.to_thread(
            self._asking.loop, in_flight, warm_up_s=warm_up_s, seconds=seconds
        )
        return LoopSample(per_second=found["answers"] / seconds, **found)

    async def failures(self, at_once: int) -> int:
        return int((await asyncio.to_thread(self._asking.at_once, at_once))["failures"])
