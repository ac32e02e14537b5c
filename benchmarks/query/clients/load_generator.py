"""Load generators: a client under test, driven in closed loops and checked.

The client of Flink runs in a JVM of its own, all others in this process on asyncio.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, Self

from benchmarks.closed_loop import LoopSample, WrongAnswerError, closed_loop
from benchmarks.gc_modes import GcMode
from benchmarks.query.dataset import BATCH_KEYS
from queryable_state.client import UnknownKeyOrNamespaceError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from benchmarks.query.dataset import Dataset
    from benchmarks.query.feeding.feeder import FeederProcess

    LookUp = Callable[[int], Awaitable[object]]
    IsRight = Callable[[int, object], bool]

SETTLE_S = 20.0
"""Time for the last commit to reach all servers."""


class Operation(StrEnum):
    """One kind of look-up."""

    HITS = "hits"
    """One present key."""
    MISSES = "misses"
    """One missing key."""
    HUNDREDS = "hundreds"
    """`BATCH_KEYS` present keys in one call."""


class Client(Protocol):
    """An asyncio client of one peer; `async with` opens and closes it."""

    name: str

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *exc_info: object) -> None: ...
    def get(self, number: int) -> Awaitable[object]:
        """Looks up a present key."""
        ...

    def is_right(self, number: int, answer: Any) -> bool:
        """True if the value is the key's, at any revision."""
        ...

    def get_missing(self, number: int) -> Awaitable[object]:
        """Looks up a missing key; an error of the client for it is an answer."""
        ...

    def is_missing(self, number: int, answer: Any) -> bool:
        """True if the answer says that the key is missing."""
        ...

    def get_many(self, start: int) -> Awaitable[object]:
        """Looks up `BATCH_KEYS` keys from a number on."""
        ...

    def are_right(self, start: int, answers: Any) -> bool:
        """True if every value is its key's, at any revision."""
        ...

    def is_at(self, revision: int, answers: Any) -> bool:
        """True if the answers of `get_many` are of the revision or a later one."""
        ...

    def texts(self, answers: Any) -> list[str | None]:
        """The values of an answer to `get_many`; None for a missing key."""
        ...


class LoadGenerator(Protocol):
    """One client of one peer and the loops that drive it."""

    name: str
    operations: frozenset[Operation]
    """The operations that the client supports."""

    async def closed_loop(
        self, operation: Operation, in_flight: int, *, warm_up_s: float, seconds: float
    ) -> LoopSample:
        """Runs one closed loop; `per_second` and `cpu_us` are per key."""
        ...

    async def check_all(self, truth: list[str], revision: int) -> None:
        """Raises `WrongAnswerError` unless every key has its value of the revision."""
        ...


@dataclass(frozen=True)
class MeasuredPeer:
    """A peer: its load generator, the process that writes to it, and how the client is run."""

    generator: LoadGenerator
    feeder: FeederProcess
    gc_mode: GcMode = GcMode.TUNED


class AsyncioLoadGenerator:
    """A client in this process."""

    operations = frozenset(Operation)

    def __init__(self, client: Client, dataset: Dataset) -> None:
        self.name = client.name
        self.client = client
        self.order = dataset.order()
        self._starts = list(range(0, dataset.size - BATCH_KEYS + 1, BATCH_KEYS))
        self._loops: dict[Operation, tuple[LookUp, IsRight, list[int]]] = {
            Operation.HITS: (client.get, client.is_right, self.order),
            Operation.MISSES: (client.get_missing, client.is_missing, self.order),
            Operation.HUNDREDS: (client.get_many, client.are_right, self._starts),
        }

    async def closed_loop(
        self, operation: Operation, in_flight: int, *, warm_up_s: float, seconds: float
    ) -> LoopSample:
        """Runs one closed loop; `per_second` and `cpu_us` are per key."""
        look_up, is_right, order = self._loops[operation]
        sample = await closed_loop(
            look_up,
            is_right,
            order,
            in_flight=in_flight,
            warm_up_s=warm_up_s,
            seconds=seconds,
            answering_errors=(UnknownKeyOrNamespaceError,),
        )
        if operation is not Operation.HUNDREDS:
            return sample
        return replace(
            sample,
            per_second=sample.per_second * BATCH_KEYS,
            cpu_us=sample.cpu_us / BATCH_KEYS,
        )

    async def check_all(self, truth: list[str], revision: int) -> None:
        """Waits until every answer is of the revision, then compares all values."""
        deadline = time.monotonic() + SETTLE_S
        for start in self._starts:
            answers = await self.client.get_many(start)
            while not self.client.is_at(revision, answers):
                if time.monotonic() > deadline:
                    raise WrongAnswerError(
                        f"{self.name} does not show revision {revision} after {SETTLE_S:g} s"
                    )
                await asyncio.sleep(0.01)
                answers = await self.client.get_many(start)
            found = self.client.texts(answers)
            wanted = truth[start : start + BATCH_KEYS]
            if found != wanted:
                raise WrongAnswerError(f"{self.name}, keys from {start}: {found}, not {wanted}")
