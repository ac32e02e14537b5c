"""Starts what is asked: redis, jobs with their state servers, proxies; and a client of each."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from benchmarks.query.feeding import Feeding
from benchmarks.query.measuring import Measured
from benchmarks.query.peers import RedisPeer, StatePeer
from benchmarks.query.redis_server import HOW_TO_GET_IT, redis_server

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Sequence

    from benchmarks.query.dataset import Dataset
    from benchmarks.query.peers import Peer


async def lineup(
    stack: contextlib.AsyncExitStack,
    names: Sequence[str],
    dataset: Dataset,
    updates_per_second: int,
) -> tuple[list[Measured], list[str]]:
    """The peers by name, loaded and connected, in the order of the tables; and remarks on them.

    Everything ends with the stack.
    """
    arguments = ["--keys", str(dataset.size), "--updates-per-second", str(updates_per_second)]
    measured: list[Measured] = []
    remarks: list[str] = []

    async def feeding(kind: str, *more: str) -> Feeding:
        return stack.enter_context(await asyncio.to_thread(Feeding, kind, *arguments, *more))

    async def add(peer: Peer, feeder: Feeding) -> None:
        measured.append(Measured(await stack.enter_async_context(peer), feeder))

    def state_peer(name: str, feeder: Feeding, address: str, *, direct: bool) -> StatePeer:
        job_id = feeder.description["job_id"]
        return StatePeer(name, dataset, address=address, job_id=job_id, direct=direct)

    if "heap" in names:
        heap = await feeding("heap")
        proxy = heap.description["proxies"][0]
        await add(state_peer("direct, heap", heap, proxy, direct=True), heap)
    if "rocksdb" in names or "proxy" in names:
        rocksdb = await feeding("rocksdb")
        if "rocksdb" in names:
            proxy = rocksdb.description["proxies"][0]
            await add(state_peer("direct, RocksDB", rocksdb, proxy, direct=True), rocksdb)
        if "proxy" in names:
            alone = rocksdb.description["stand_alone_proxy"]
            await add(state_peer("proxy, RocksDB", rocksdb, alone, direct=False), rocksdb)
    if "split" in names:
        two = await feeding("rocksdb", "--servers", "2")
        alone = two.description["stand_alone_proxy"]
        await add(state_peer("proxy, 2 RocksDB", two, alone, direct=False), two)
    if "redis" in names or "redis-pool" in names:
        port = stack.enter_context(redis_server())
        if port is None:
            remarks.append(HOW_TO_GET_IT)
        else:
            fed = await feeding("redis", "--port", str(port))
            remarks.append(f"redis-server {fed.description['version']}")
            if "redis" in names:
                await add(RedisPeer("redis-py asyncio", dataset, port), fed)
            if "redis-pool" in names:
                pooled = RedisPeer("redis-py, 16 connections", dataset, port, connections=16)
                await add(pooled, fed)
    return measured, remarks
