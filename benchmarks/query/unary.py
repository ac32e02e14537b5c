"""Plain unary `GetKvState`, as other languages ask: a call a key, over one channel."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import grpc.aio

from benchmarks.closed_loop import LoopSample, WrongAnswerError, closed_loop
from benchmarks.figures import table, thousands
from benchmarks.query.dataset import QUERYABLE_NAME, REVISION_LENGTH
from queryable_state.v1 import query_pb2, query_pb2_grpc
from queryable_state.wire.key_groups import KeyGroups
from queryable_state.wire.types import Types
from queryable_state.wire.values import ValueCodec

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from benchmarks.query.dataset import Dataset

MAX_PARALLELISM = 128


@dataclass(frozen=True)
class UnaryFigures:
    """What was measured at one server."""

    loops: dict[int, LoopSample]
    """By calls in flight."""
    at_once: int
    """Calls begun in one turn of the loop; every one was answered right."""

    def to_json(self) -> dict[str, object]:
        """For machines."""
        loops = {str(count): asdict(sample) for count, sample in self.loops.items()}
        return {"loops": loops, "at_once": self.at_once}

    def report(self) -> str:
        """For people."""
        rows = [
            [str(count), thousands(sample.per_second), f"{sample.p50_us:.0f}/{sample.p99_us:.0f}"]
            for count, sample in self.loops.items()
        ]
        return (
            "Unary GetKvState with encoded keys, one call a key:\n\n"
            + table(["in flight", "calls/s", "p50 / p99 in us"], rows)
            + f"\n\n{self.at_once:,} calls at once: every one answered, and right."
        )


class UnaryCaller:
    """Asks a server of a dataset by wire keys; `async with` opens and closes its channel."""

    def __init__(self, address: str, job_id: str, dataset: Dataset) -> None:
        wire_key = KeyGroups(Types.STRING(), MAX_PARALLELISM).wire_key
        self._address = address
        self._stems = dataset.stems
        self._decode = ValueCodec.of(Types.STRING()).decode
        self._requests = [
            query_pb2.GetKvStateRequest(
                job=job_id, state_name=QUERYABLE_NAME, encoded_key=wire_key(key)
            )
            for key in dataset.keys
        ]

    async def __aenter__(self) -> UnaryCaller:
        self._channel = grpc.aio.insecure_channel(self._address)
        stub: Any = query_pb2_grpc.QueryableStateStub(self._channel)
        self._call = stub.GetKvState
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._channel.close()

    def ask(self, number: int) -> Awaitable[Any]:
        """One call."""
        call: Awaitable[Any] = self._call(self._requests[number], timeout=60)
        return call

    def is_right(self, number: int, answer: Any) -> bool:
        """Whether the value is the key's, at any revision."""
        (value,) = answer.records.values
        return bool(self._decode(value)[:-REVISION_LENGTH] == self._stems[number])


async def measure_unary(
    address: str,
    job_id: str,
    dataset: Dataset,
    *,
    in_flight: Sequence[int] = (1, 16, 64),
    at_once: int = 5_000,
    warm_up_s: float,
    seconds: float,
) -> UnaryFigures:
    """Closed loops of calls, then many at once; raises at the first failure or wrong answer."""
    order = dataset.order()
    async with UnaryCaller(address, job_id, dataset) as caller:
        loops = {
            count: await closed_loop(
                caller.ask,
                caller.is_right,
                order,
                in_flight=count,
                warm_up_s=warm_up_s,
                seconds=seconds,
            )
            for count in in_flight
        }
        numbers = order[:at_once]
        answers = await asyncio.gather(*map(caller.ask, numbers))
        for number, answer in zip(numbers, answers, strict=True):
            if not caller.is_right(number, answer):
                raise WrongAnswerError(f"key {number}: {answer}")
    return UnaryFigures(loops, len(numbers))
