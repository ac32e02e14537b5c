"""One row: a server filled with so many keys, its memory, and look-ups at it."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.capacity.asking import Asking, Lookups
from benchmarks.capacity.dataset import DerivedRecords
from benchmarks.capacity.loader import loader
from benchmarks.capacity.server_process import ServerProcess
from queryable_state.server.storage.rocksdb.settings import RocksDBSettings

if TYPE_CHECKING:
    from benchmarks.capacity.loader import Loading
    from queryable_state.server.settings import Backend


@dataclass(frozen=True, kw_only=True)
class BigBatch:
    """Every key written anew by one batch."""

    seconds: float
    peak_rss_bytes: int
    rss_bytes: int
    """When all of it is folded."""
    meanwhile: Lookups
    """One in flight, from before the batch began until it was committed and being folded."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One backend with so many keys."""

    backend: Backend
    keys: int
    empty_rss_bytes: int
    """Of the server before it has state."""
    rss_bytes: int
    """When all is folded, flushed and compacted, before any look-up."""
    peak_rss_bytes: int
    """During the load."""
    asked_rss_bytes: int
    """After the look-ups: what is cached has come in."""
    raw_bytes_per_key: float
    """Key and value as the user has them."""
    disk_bytes: int
    block_cache_bytes: int
    """The setting; 0 for the heap."""
    load_keys_per_s: float
    lookups: list[Lookups]
    big_batch: BigBatch | None

    @property
    def bytes_per_key(self) -> float:
        """Memory beyond an empty server, a key, with what the user has in it."""
        return (self.asked_rss_bytes - self.empty_rss_bytes) / self.keys

    @property
    def overhead_per_key(self) -> float:
        """The same without key and value as the user has them."""
        return self.bytes_per_key - self.raw_bytes_per_key

    @property
    def beyond_cache_bytes(self) -> int:
        """Resident memory beyond the block cache setting."""
        return max(0, self.asked_rss_bytes - self.block_cache_bytes)

    def of(self, in_flight: int, *, found: bool) -> Lookups:
        """The loop with so many in flight."""
        return next(
            each for each in self.lookups if each.in_flight == in_flight and each.found == found
        )


async def measure(
    backend: Backend, keys: int, *, seconds: float, rounds: int, big_batch: bool
) -> Row:
    """Fills a server, lets it come to rest, and asks it."""
    records = DerivedRecords(keys)
    starting = loader(keys, backend)
    loading = await asyncio.to_thread(starting.__enter__)
    try:
        return await _measure(
            loading, records, backend, seconds=seconds, rounds=rounds, big_batch=big_batch
        )
    finally:
        await asyncio.to_thread(starting.__exit__, None, None, None)


async def _measure(
    loading: Loading,
    records: DerivedRecords,
    backend: Backend,
    *,
    seconds: float,
    rounds: int,
    big_batch: bool,
) -> Row:
    where = await asyncio.to_thread(loading.describe)
    server = ServerProcess(where["pids"][0])
    empty = server.rss_bytes
    load_s = await asyncio.to_thread(loading.load)
    peak = server.peak_rss_bytes
    await asyncio.to_thread(server.wait_quiet)
    rss, disk = server.rss_bytes, server.disk_bytes
    _say(backend, records, f"loaded in {load_s:.1f} s, RSS {rss / 2**20:.0f} MiB")
    async with Asking(records, where["proxies"][0], where["job_id"]) as asking:
        samples = [
            await asking.loop(in_flight=in_flight, found=found, seconds=seconds)
            for _ in range(rounds)
            for in_flight in (1, 64)
            for found in (True, False)
        ]
        asked = server.rss_bytes
        for each in samples:
            kind = "hits" if each.found else "misses"
            _say(
                backend,
                records,
                f"{kind} at {each.in_flight}: {each.sample.per_second:.0f}/s, "
                f"p50 {each.sample.p50_us:.0f} us, p99 {each.sample.p99_us:.0f} us",
            )
        big = await _big_batch(loading, server, asking, seconds) if big_batch else None
    return Row(
        backend=backend,
        keys=records.size,
        empty_rss_bytes=empty,
        rss_bytes=rss,
        peak_rss_bytes=peak,
        asked_rss_bytes=asked,
        raw_bytes_per_key=records.raw_bytes_per_key,
        disk_bytes=disk,
        block_cache_bytes=RocksDBSettings().block_cache_bytes if backend == "rocksdb" else 0,
        load_keys_per_s=records.size / load_s,
        lookups=_medians(samples),
        big_batch=big,
    )


async def _big_batch(
    loading: Loading, server: ServerProcess, asking: Asking, seconds: float
) -> BigBatch:
    server.forget_peak()
    writing = asyncio.create_task(asyncio.to_thread(loading.rewrite))
    loops: list[Lookups] = []
    while not writing.done():
        loops.append(await asking.loop(in_flight=1, found=True, seconds=seconds))
    # It is folded now.
    loops.append(await asking.loop(in_flight=1, found=True, seconds=seconds))
    batch_s = await writing
    peak = server.peak_rss_bytes
    await asyncio.to_thread(server.wait_quiet)
    worst = max(loops, key=lambda each: each.sample.p99_us)
    return BigBatch(
        seconds=batch_s, peak_rss_bytes=peak, rss_bytes=server.rss_bytes, meanwhile=worst
    )


def _medians(samples: list[Lookups]) -> list[Lookups]:
    """Of the rounds of each kind of loop the one with the median p50."""
    kinds = dict.fromkeys((each.in_flight, each.found) for each in samples)
    return [
        sorted(
            (s for s in samples if (s.in_flight, s.found) == kind), key=lambda s: s.sample.p50_us
        )[sum((s.in_flight, s.found) == kind for s in samples) // 2]
        for kind in kinds
    ]


def _say(backend: Backend, records: DerivedRecords, line: str) -> None:
    print(f"{backend}, {records.size:,} keys: {line}", file=sys.stderr, flush=True)
