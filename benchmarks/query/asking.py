"""Who asks a peer: this process with asyncio, or a JVM for Flink."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from benchmarks.closed_loop import LoopSample, WrongAnswerError, closed_loop
from benchmarks.query.dataset import BATCH_KEYS
from benchmarks.query.question import Question
from queryable_state.client import UnknownKeyOrNamespaceError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from benchmarks.query.dataset import Dataset
    from benchmarks.query.feeding import Feeding
    from benchmarks.query.peer import Peer

    Ask = Callable[[int], Awaitable[object]]
    Check = Callable[[int, object], bool]

SETTLE_S = 20.0
"""How long after the last write its commit may take to reach all servers."""


class Asking(Protocol):
    """One client of one peer."""

    name: str
    questions: frozenset[Question]
    """What it can be asked."""

    async def closed_loop(
        self, question: Question, in_flight: int, *, warm_up_s: float, seconds: float
    ) -> LoopSample:
        """One closed loop; `per_second` and `cpu_us` are by key."""
        ...

    async def check_all(self, truth: list[str], revision: int) -> None:
        """Raises `WrongAnswerError` unless every key has its value of the revision."""
        ...


@dataclass(frozen=True)
class Measured:
    """Who asks a peer and who writes to it meanwhile."""

    asking: Asking
    feeding: Feeding


class AsyncioAsking:
    """This process asks."""

    questions = frozenset(Question)

    def __init__(self, peer: Peer, dataset: Dataset) -> None:
        self.name = peer.name
        self.peer = peer
        self.order = dataset.order()
        self._starts = list(range(0, dataset.size - BATCH_KEYS + 1, BATCH_KEYS))
        self._loops: dict[Question, tuple[Ask, Check, list[int]]] = {
            Question.HITS: (peer.ask, peer.is_right, self.order),
            Question.MISSES: (peer.ask_missing, peer.is_missing, self.order),
            Question.HUNDREDS: (peer.ask_many, peer.are_right, self._starts),
        }

    async def closed_loop(
        self, question: Question, in_flight: int, *, warm_up_s: float, seconds: float
    ) -> LoopSample:
        """One closed loop; `per_second` and `cpu_us` are by key."""
        ask, check, order = self._loops[question]
        sample = await closed_loop(
            ask,
            check,
            order,
            in_flight=in_flight,
            warm_up_s=warm_up_s,
            seconds=seconds,
            answering_errors=(UnknownKeyOrNamespaceError,),
        )
        if question is not Question.HUNDREDS:
            return sample
        return replace(
            sample,
            per_second=sample.per_second * BATCH_KEYS,
            cpu_us=sample.cpu_us / BATCH_KEYS,
        )

    async def check_all(self, truth: list[str], revision: int) -> None:
        """Waits until every answer is of the revision, then compares."""
        deadline = time.monotonic() + SETTLE_S
        for start in self._starts:
            answers = await self.peer.ask_many(start)
            while not self.peer.is_at(revision, answers):
                if time.monotonic() > deadline:
                    raise WrongAnswerError(f"{self.name} is behind {revision}")
                await asyncio.sleep(0.01)
                answers = await self.peer.ask_many(start)
            found = self.peer.texts(answers)
            wanted = truth[start : start + BATCH_KEYS]
            if found != wanted:
                raise WrongAnswerError(f"{self.name}, keys from {start}: {found}, not {wanted}")
