"""Checked look-ups of random keys, present and missing ones."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, cast

from benchmarks.capacity.dataset import key_of, value_of
from benchmarks.closed_loop import closed_loop
from benchmarks.gc_modes import collecting
from benchmarks.query.dataset import QUERYABLE_NAME
from queryable_state.client import QueryableStateClient, UnknownKeyOrNamespaceError
from queryable_state.wire.addresses import host_and_port

if TYPE_CHECKING:
    from benchmarks.capacity.dataset import DerivedRecords
    from benchmarks.closed_loop import LoopSample
    from queryable_state.client import KvState

_SAMPLE = 200_000
_WARM_UP_S = 1.5


@dataclass(frozen=True)
class Lookups:
    """One closed loop of look-ups."""

    in_flight: int
    found: bool
    """True if the keys are present."""
    sample: LoopSample


class RandomLookups:
    """A client of the server that holds the records; it checks every answer."""

    def __init__(self, records: DerivedRecords, proxy: str, job_id: str) -> None:
        self._records = records
        self._client = QueryableStateClient(*host_and_port(proxy), timeout_s=30.0)
        self._job_id = job_id
        chosen = random.Random(records.size)
        count = min(_SAMPLE, records.size)
        self._present = chosen.sample(range(records.size), count)
        self._absent = [number + records.size for number in self._present]

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._client.__aexit__(*exc_info)

    async def loop(self, *, in_flight: int, found: bool, seconds: float) -> Lookups:
        """Runs one closed loop over present or missing keys; raises at a wrong answer."""
        with collecting():
            sample = await closed_loop(
                self._get if found else self._get_absent,
                self._is_right if found else self._is_absent,
                self._present if found else self._absent,
                in_flight=in_flight,
                warm_up_s=_WARM_UP_S,
                seconds=seconds,
            )
        return Lookups(in_flight, found, sample)

    async def _get(self, number: int) -> KvState:
        return await self._client.get_kv_state(self._job_id, QUERYABLE_NAME, key_of(number))

    async def _get_absent(self, number: int) -> KvState | None:
        try:
            return await self._client.get_kv_state(self._job_id, QUERYABLE_NAME, key_of(number))
        except UnknownKeyOrNamespaceError:
            return None

    def _is_right(self, number: int, answer: object) -> bool:
        """True if the value is that of the load or of the batch that rewrote all keys."""
        found = cast("KvState", answer).value()
        rewritten = value_of(number, self._records.loads)
        return bool(found in (self._records.loaded(number), rewritten))

    def _is_absent(self, _: int, answer: object) -> bool:
        return answer is None
