"""One row of the report: a filled state server, its memory and the latency of look-ups."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.capacity.client import Lookups, RandomLookups
from benchmarks.capacity.dataset import DerivedRecords
from benchmarks.capacity.loader import loader
from benchmarks.capacity.server_process import ServerProcess
from queryable_state.server.storage.rocksdb.settings import RocksDBSettings

if TYPE_CHECKING:
    from benchmarks.capacity.loader import LoaderHandle
    from queryable_state.server.settings.shared_settings import Backend


@dataclass(frozen=True, kw_only=True)
class BigBatch:
    """One batch that rewrites every key."""

    seconds: float
    peak_rss_bytes: int
    rss_bytes: int
    """After the compaction of the batch into the base."""
    lookups: Lookups
    """One in flight, from before the batch until after its commit; the worst loop."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One backend with a number of keys."""

    backend: Backend
    keys: int
    empty_rss_bytes: int
    """RSS of the server without state."""
    rss_bytes: int
    """Once all is flushed and compacted, before any look-up."""
    peak_rss_bytes: int
    """During the load."""
    warm_rss_bytes: int
    """After the look-ups, with filled caches."""
    raw_bytes_per_key: float
    """Key and value as UTF-8."""
    disk_bytes: int
    block_cache_bytes: int
    """The configured size; 0 for the heap."""
    load_keys_per_s: float
    lookups: list[Lookups]
    big_batch: BigBatch | None

    @property
    def bytes_per_key(self) -> float:
        """Memory beyond that of an empty server per key, key and value included."""
        return (self.warm_rss_bytes - self.empty_rss_bytes) / self.keys

    @property
    def overhead_per_key(self) -> float:
        """The same without key and value."""
        return self.bytes_per_key - self.raw_bytes_per_key

    @property
    def beyond_cache_bytes(self) -> int:
        """Resident memory beyond the block cache setting."""
        return max(0, self.warm_rss_bytes - self.block_cache_bytes)

    def of(self, in_flight: int, *, found: bool) -> Lookups:
        """The loop with a number in flight."""
        return next(
            each for each in self.lookups if each.in_flight == in_flight and each.found == found
        )


async def measure(
    backend: Backend, keys: int, *, seconds: float, rounds: int, big_batch: bool
) -> Row:
    """Fills a server, waits until it is idle, and looks up keys."""
    records = DerivedRecords(keys)
    # Nothing else runs on the event loop while the loader starts and ends.
    with loader(keys, backend) as handle:
        return await _measure(
            handle, records, backend, seconds=seconds, rounds=rounds, big_batch=big_batch
        )


async def _measure(
    handle: LoaderHandle,
    records: DerivedRecords,
    backend: Backend,
    *,
    seconds: float,
    rounds: int,
    big_batch: bool,
) -> Row:
    job = await asyncio.to_thread(handle.describe)
    server = ServerProcess(job["pids"][0])
    empty = server.rss_bytes
    load_s = await asyncio.to_thread(handle.load)
    peak = server.peak_rss_bytes
    await asyncio.to_thread(server.wait_quiet)
    rss, disk = server.rss_bytes, server.disk_bytes
    _log(backend, records, f"loaded in {load_s:.1f} s, RSS {rss / 2**20:.0f} MiB")
    async with RandomLookups(records, job["proxies"][0], job["job_id"]) as client:
        samples = [
            await client.loop(in_flight=in_flight, found=found, seconds=seconds)
            for _ in range(rounds)
            for in_flight in (1, 64)
            for found in (True, False)
        ]
        warm = server.rss_bytes
        for each in samples:
            kind = "hits" if each.found else "misses"
            _log(
                backend,
                records,
                f"{kind} at {each.in_flight}: {each.sample.per_second:.0f}/s, "
                f"p50 {each.sample.p50_us:.0f} us, p99 {each.sample.p99_us:.0f} us",
            )
        big = await _big_batch(handle, server, client, seconds) if big_batch else None
    return Row(
        backend=backend,
        keys=records.size,
        empty_rss_bytes=empty,
        rss_bytes=rss,
        peak_rss_bytes=peak,
        warm_rss_bytes=warm,
        raw_bytes_per_key=records.raw_bytes_per_key,
        disk_bytes=disk,
        block_cache_bytes=RocksDBSettings().block_cache_bytes if backend == "rocksdb" else 0,
        load_keys_per_s=records.size / load_s,
        lookups=_medians(samples),
        big_batch=big,
    )


async def _big_batch(
    handle: LoaderHandle, server: ServerProcess, client: RandomLookups, seconds: float
) -> BigBatch:
    server.forget_peak()
    writing = asyncio.create_task(asyncio.to_thread(handle.rewrite))
    loops: list[Lookups] = []
    while not writing.done():
        loops.append(await client.loop(in_flight=1, found=True, seconds=seconds))
    # The compaction of the batch runs now.
    loops.append(await client.loop(in_flight=1, found=True, seconds=seconds))
    batch_s = await writing
    peak = server.peak_rss_bytes
    await asyncio.to_thread(server.wait_quiet)
    worst = max(loops, key=lambda each: each.sample.p99_us)
    return BigBatch(seconds=batch_s, peak_rss_bytes=peak, rss_bytes=server.rss_bytes, lookups=worst)


def _medians(samples: list[Lookups]) -> list[Lookups]:
    """The round with the median p50 of each kind of loop."""
    kinds = dict.fromkeys((each.in_flight, each.found) for each in samples)
    return [
        sorted(
            (s for s in samples if (s.in_flight, s.found) == kind), key=lambda s: s.sample.p50_us
        )[sum((s.in_flight, s.found) == kind for s in samples) // 2]
        for kind in kinds
    ]


def _log(backend: Backend, records: DerivedRecords, line: str) -> None:
    print(f"{backend}, {records.size:,} keys: {line}", file=sys.stderr, flush=True)
