"""Checked look-ups of random keys of the large checkpoint and of our own state; freshness."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.capacity.client import RandomLookups
from benchmarks.capacity.dataset import key_of
from benchmarks.closed_loop import closed_loop
from benchmarks.gc_modes import collecting
from queryable_state.client import Consistency, QueryableStateClient
from queryable_state.wire.addresses import host_and_port

if TYPE_CHECKING:
    from benchmarks.capacity.dataset import DerivedRecords
    from benchmarks.closed_loop import LoopSample
    from benchmarks.native.replayed import ReplayedCheckpoint

STATE = "aggregation"
JOB = "query"
_WARM_UP_S = 1.0
_SAMPLE = 200_000


async def native_loop(address: str, keys: int, *, in_flight: int, seconds: float) -> LoopSample:
    """Look-ups of the served checkpoint, whose value is the count 1 and the key's number."""
    order = random.Random(keys).sample(range(keys), min(_SAMPLE, keys))
    async with QueryableStateClient(*host_and_port(address), timeout_s=30.0) as client:

        async def look_up(number: int) -> object:
            return await client.get_kv_state(JOB, STATE, key_of(number))

        def is_right(number: int, answer: Any) -> bool:
            return bool(tuple(answer.value()) == (1, number))

        with collecting():
            return await closed_loop(
                look_up,
                is_right,
                order,
                in_flight=in_flight,
                warm_up_s=_WARM_UP_S,
                seconds=seconds,
            )


async def own_loop(
    records: DerivedRecords, job: dict[str, Any], *, in_flight: int, seconds: float
) -> LoopSample:
    """The same look-ups of state that our own job keeps in RocksDB."""
    async with RandomLookups(records, job["proxies"][0], job["job_id"]) as client:
        found = await client.loop(in_flight=in_flight, found=True, seconds=seconds)
        return found.sample


async def freshness_ms(address: str, checkpoint: str, batches: int) -> list[float]:
    """Milliseconds from the file `commits/N` to an answer of batch N, of so many batches."""
    commits = Path(checkpoint) / "commits"
    found: list[float] = []
    async with QueryableStateClient(*host_and_port(address), timeout_s=60.0) as client:
        key = key_of(1)
        state = await client.get_kv_state(JOB, STATE, key)
        batch = state.info.version
        while len(found) < batches:
            state = await client.get_kv_state(
                JOB, STATE, key, consistency=Consistency.at_least(batch + 1)
            )
            seen_ms = time.time() * 1000
            batch = state.info.version
            with contextlib.suppress(FileNotFoundError):
                found.append(seen_ms - (commits / str(batch)).stat().st_mtime_ns / 1e6)
    return found


async def replayed_freshness_ms(
    address: str, replayed: ReplayedCheckpoint, batches: int
) -> list[float]:
    """Milliseconds from the upload of `commits/N` to an answer of batch N, of the last batches.

    The pauses between batches are random, because the server looks at fixed times.
    """
    random_pauses = random.Random(batches)
    found: list[float] = []
    async with QueryableStateClient(*host_and_port(address), timeout_s=60.0) as client:
        for batch in range(replayed.last - batches + 1, replayed.last + 1):
            await asyncio.sleep(random_pauses.uniform(0.5, 1.5))
            waiting = asyncio.create_task(_seen_s(client, batch))
            await asyncio.to_thread(replayed.commit, batch)
            committed_s = time.perf_counter()
            found.append((await waiting - committed_s) * 1000)
    return found


async def _seen_s(client: QueryableStateClient, batch: int) -> float:
    state = await client.get_kv_state(
        JOB, STATE, key_of(1), consistency=Consistency.at_least(batch)
    )
    assert state.info.version == batch
    return time.perf_counter()
