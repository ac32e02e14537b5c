"""Plain unary `GetKvState`, one call a key over one channel, as other languages look up."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

from benchmarks.closed_loop import LoopSample, closed_loop
from benchmarks.figures import table, thousands
from benchmarks.query.dataset import MAX_PARALLELISM, QUERYABLE_NAME, REVISION_LENGTH
from queryable_state.v1 import query_pb2, query_pb2_grpc
from queryable_state.wire.keys.key_groups import KeyGroups
from queryable_state.wire.schema.types import Types
from queryable_state.wire.security.connector import CLEAR_TEXT
from queryable_state.wire.values.value_codec import ValueCodec

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from benchmarks.query.dataset import Dataset
    from queryable_state.wire.security.connector import Connector

IN_FLIGHT = (1, 16, 64, 256)
AT_ONCE = (1_000, 5_000)


class UnaryKeys:
    """The keys of a dataset as requests, and the expected beginnings of their values."""

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
        """The beginning that a key's encoded value has at every revision."""

    def is_right(self, number: int, answer: Any) -> bool:
        """True if the value is the key's, at any revision."""
        (value,) = answer.records.values
        return bool(value[:-REVISION_LENGTH] == self.beginnings[number])


class UnaryClient(Protocol):
    """A program that makes the calls."""

    name: str

    async def loop(self, in_flight: int, *, warm_up_s: float, seconds: float) -> LoopSample:
        """Runs one closed loop; raises at the first failure or wrong answer."""
        ...

    async def failures(self, at_once: int) -> int:
        """Starts calls together and counts the failed and wrong ones."""
        ...


class PythonClient:
    """`grpc.aio` in this process; `async with` opens and closes its channel."""

    name = "Python, grpc.aio"

    def __init__(
        self,
        address: str,
        keys: UnaryKeys,
        order: Sequence[int],
        connector: Connector = CLEAR_TEXT,
    ) -> None:
        self._connector = connector
        if connector.tls is not None:
            self.name = f"{self.name}, TLS"
        self._address = address
        self._keys = keys
        self._order = order

    async def __aenter__(self) -> Self:
        self._channel = self._connector.channel(self._address, ())
        stub: Any = query_pb2_grpc.QueryableStateStub(self._channel)
        self._rpc = stub.GetKvState
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._channel.close()

    async def loop(self, in_flight: int, *, warm_up_s: float, seconds: float) -> LoopSample:
        return await closed_loop(
            self._call,
            self._keys.is_right,
            self._order,
            in_flight=in_flight,
            warm_up_s=warm_up_s,
            seconds=seconds,
        )

    async def failures(self, at_once: int) -> int:
        numbers = [self._order[at % len(self._order)] for at in range(at_once)]
        answers = await asyncio.gather(*map(self._call, numbers), return_exceptions=True)
        return sum(
            isinstance(answer, BaseException) or not self._keys.is_right(number, answer)
            for number, answer in zip(numbers, answers, strict=True)
        )

    def _call(self, number: int) -> Awaitable[Any]:
        call: Awaitable[Any] = self._rpc(self._keys.requests[number], timeout=60)
        return call


@dataclass(frozen=True)
class UnaryFigures:
    """The figures of one client against one server."""

    client: str
    loops: dict[int, LoopSample]
    """By calls in flight."""
    failures: dict[int, int]
    """Failed and wrong calls, by number of calls started together, of all rounds."""

    @classmethod
    def median(cls, rounds: Sequence[UnaryFigures]) -> UnaryFigures:
        """The loops with the median rate, and the failures of all rounds of one client."""
        loops = {
            count: sorted((each.loops[count] for each in rounds), key=lambda loop: loop.per_second)
            for count in rounds[0].loops
        }
        return cls(
            rounds[0].client,
            {count: samples[len(samples) // 2] for count, samples in loops.items()},
            {
                at_once: sum(each.failures[at_once] for each in rounds)
                for at_once in rounds[0].failures
            },
        )

    def to_json(self) -> dict[str, object]:
        """The figures as JSON."""
        loops = {str(count): asdict(sample) for count, sample in self.loops.items()}
        return {"client": self.client, "loops": loops, "failures": self.failures}


async def measure_unary(
    client: UnaryClient,
    *,
    in_flight: Sequence[int] = IN_FLIGHT,
    at_once: Sequence[int] = AT_ONCE,
    warm_up_s: float,
    seconds: float,
) -> UnaryFigures:
    """Runs closed loops, then bursts; raises at a loop's first failure or wrong answer."""
    loops = {
        count: await client.loop(count, warm_up_s=warm_up_s, seconds=seconds) for count in in_flight
    }
    failures = {count: await client.failures(count) for count in at_once}
    return UnaryFigures(client.name, loops, failures)


def unary_report(measured: Sequence[UnaryFigures]) -> str:
    """The figures as a table and a line for each burst."""
    rows = [
        [
            figures.client,
            str(count),
            thousands(sample.per_second),
            f"{sample.p50_us:.0f}/{sample.p99_us:.0f}",
            f"{sample.cpu_us:.0f}",
        ]
        for figures in measured
        for count, sample in figures.loops.items()
    ]
    header = ["client", "in flight", "calls/s", "p50 / p99 in us", "client CPU in us a call"]
    bursts = [
        f"{figures.client}, {count:,} calls started together: "
        + (f"{failures:,} failed." if failures else "all answered right.")
        for figures in measured
        for count, failures in figures.failures.items()
    ]
    return "\n\n".join(
        [
            "Unary GetKvState with encoded keys, one call a key:",
            table(header, rows),
            "\n".join(bursts),
        ]
    )
