"""Starts what is asked: Flink, redis, jobs with their state servers, proxies; and who asks each."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from benchmarks.query import flink_programs
from benchmarks.query.asking import AsyncioAsking, Measured
from benchmarks.query.feeding import Feeding
from benchmarks.query.flink_asking import FlinkAsking
from benchmarks.query.redis_peer import RedisPeer
from benchmarks.query.redis_server import HOW_TO_GET_IT, redis_server
from benchmarks.query.state_peer import StatePeer

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Sequence

    from benchmarks.query.dataset import Dataset
    from benchmarks.query.peer import Peer

TITLES = {
    "heap": "direct, heap",
    "rocksdb": "direct, RocksDB",
    "proxy": "proxy, RocksDB",
    "split": "proxy, 2 RocksDB",
    "flink-heap": "Flink, heap",
    "flink-rocksdb": "Flink, RocksDB",
    "redis": "redis-py asyncio",
    "redis-16": "redis-py, 16 connections",
    "redis-64": "redis-py, 64 connections",
}
"""The peers in the order of the tables."""
OPEN_LOOPED = ("rocksdb", "redis-16", "redis-64")
"""Who is asked in open loops: ours, and redis-py over pools of a size a good user would choose."""


class Lineup:
    """The peers by name, loaded and connected; everything ends with the stack."""

    def __init__(
        self, stack: contextlib.AsyncExitStack, dataset: Dataset, updates_per_second: int
    ) -> None:
        self.measured: list[Measured] = []
        self.remarks: list[str] = []
        self.owner: Feeding | None = None
        """Who writes to the one RocksDB server with all keys, where it was started."""
        self._stack = stack
        self._dataset = dataset
        self._feeder_arguments = (
            *("--keys", str(dataset.size)),
            *("--updates-per-second", str(updates_per_second)),
        )

    async def add(self, names: Sequence[str], *, jvm_warm_up_s: float) -> None:
        """Starts the peers of these names."""
        if "heap" in names:
            heap = await self._feeding("heap")
            await self._add_state("heap", heap, heap.description["proxies"][0], direct=True)
        if "rocksdb" in names or "proxy" in names:
            one = await self._feeding("rocksdb")
            self.owner = one
            if "rocksdb" in names:
                await self._add_state("rocksdb", one, one.description["proxies"][0], direct=True)
            if "proxy" in names:
                alone = one.description["stand_alone_proxy"]
                await self._add_state("proxy", one, alone, direct=False)
        if "split" in names:
            two = await self._feeding("rocksdb", "--servers", "2")
            alone = two.description["stand_alone_proxy"]
            await self._add_state("split", two, alone, direct=False)
        await self._add_flink([name for name in names if "flink" in name], jvm_warm_up_s)
        await self._add_redis([name for name in names if "redis" in name])

    async def _feeding(self, kind: str, *arguments: str) -> Feeding:
        feeder = await asyncio.to_thread(Feeding, kind, *self._feeder_arguments, *arguments)
        return self._stack.enter_context(feeder)

    async def _add_state(self, name: str, feeding: Feeding, address: str, *, direct: bool) -> None:
        job_id = feeding.description["job_id"]
        peer = StatePeer(TITLES[name], self._dataset, address=address, job_id=job_id, direct=direct)
        await self._add_peer(peer, feeding)

    async def _add_peer(self, peer: Peer, feeding: Feeding) -> None:
        await self._stack.enter_async_context(peer)
        self.measured.append(Measured(AsyncioAsking(peer, self._dataset), feeding))

    async def _add_flink(self, names: Sequence[str], jvm_warm_up_s: float) -> None:
        if not names:
            return
        if missing := await asyncio.to_thread(flink_programs.build):
            self.remarks.append(missing)
            return
        about: dict[str, Any] = {}
        for name in names:
            feeding = await self._feeding(name)
            about = feeding.description
            asking = await self._stack.enter_async_context(
                FlinkAsking(
                    TITLES[name],
                    self._dataset,
                    port=about["port"],
                    job_id=about["job_id"],
                )
            )
            await asyncio.to_thread(feeding.run)
            await asking.warm_up(jvm_warm_up_s)
            await asyncio.to_thread(feeding.pause)
            self.measured.append(Measured(asking, feeding))
        self.remarks.append(f"Apache Flink {about['version']}, Java {about['java']}")

    async def _add_redis(self, names: Sequence[str]) -> None:
        if not names:
            return
        port = self._stack.enter_context(redis_server())
        if port is None:
            self.remarks.append(HOW_TO_GET_IT)
            return
        feeding = await self._feeding("redis", "--port", str(port))
        self.remarks.append(f"redis-server {feeding.description['version']}")
        for name in names:
            _, _, connections = name.partition("-")
            peer = RedisPeer(TITLES[name], self._dataset, port, connections=int(connections or 0))
            await self._add_peer(peer, feeding)
