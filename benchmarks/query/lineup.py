"""The peers of a run: their servers, feeders and clients, started by name."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from benchmarks.gc_modes import GcMode
from benchmarks.peers import flink_program
from benchmarks.peers.redis_server import NOT_INSTALLED, redis_server
from benchmarks.query.clients.flink_client import FlinkLoadGenerator
from benchmarks.query.clients.load_generator import AsyncioLoadGenerator, MeasuredPeer
from benchmarks.query.clients.redis_client import BestRedisPool, RedisClient
from benchmarks.query.clients.state_client import StateClient
from benchmarks.query.clients.valkey_client import ValkeyClient
from benchmarks.query.feeding.feeder import FeederProcess
from queryable_state.client import Tls

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Sequence

    from benchmarks.query.clients.load_generator import Client, LoadGenerator
    from benchmarks.query.dataset import Dataset

TITLES = {
    "heap": "direct, heap",
    "rocksdb": "direct, RocksDB",
    "token": "direct, RocksDB, token",
    "tls": "direct, RocksDB, TLS",
    "proxy": "proxy, RocksDB",
    "proxy-tls": "proxy, RocksDB, TLS",
    "split": "proxy, 2 RocksDB",
    "default-gc": "direct, RocksDB, default GC",
    "large-commits": "direct, RocksDB, large commits",
    "spark": "direct, RocksDB, Spark job",
    "flink-heap": "Flink, heap",
    "flink-rocksdb": "Flink, RocksDB",
    "redis": "redis-py, best pool",
    "valkey": "valkey-glide",
}
"""The peers in the order of the tables."""
REFERENCES = tuple(TITLES[name] for name in ("flink-heap", "flink-rocksdb", "redis", "valkey"))
OPEN_LOOP_POOLS = (4, 16, 64)
"""Connections of the redis-py pools whose rates are searched in open loops."""
KEYS_PER_COMMIT = 1_000
LARGE_COMMIT_KEYS = 5_000
"""A commit of more keys than the record cache of the state server updates: it empties the cache."""
SPARK_KEYS_PER_COMMIT = 2_000
"""A batch of a Spark job takes longer: the same rate of updates in fewer, larger commits."""


class Lineup:
    """The loaded and connected peers; they end with the stack."""

    def __init__(
        self, stack: contextlib.AsyncExitStack, dataset: Dataset, updates_per_second: int
    ) -> None:
        self.peers: list[MeasuredPeer] = []
        """The peers of the closed loops."""
        self.open_loop_peers: list[MeasuredPeer] = []
        self.remarks: list[str] = []
        self.owner: FeederProcess | None = None
        """The feeder of the one RocksDB server with all keys, if it was started."""
        self.secured_owner: FeederProcess | None = None
        """The same with TLS."""
        self.redis: BestRedisPool | None = None
        self._stack = stack
        self._dataset = dataset
        self._updates_per_second = updates_per_second

    async def add(self, names: Sequence[str], *, jvm_warm_up_s: float) -> None:
        """Starts the peers of these names."""
        if "heap" in names:
            await self._add_direct("heap", await self._feeder("heap"))
        if {"rocksdb", "proxy", "default-gc"} & set(names):
            one = await self._feeder("rocksdb")
            self.owner = one
            if "rocksdb" in names:
                direct = await self._add_direct("rocksdb", one)
                self.open_loop_peers.append(direct)
            if "proxy" in names:
                await self._add_proxied("proxy", one)
            if "default-gc" in names:
                await self._add_direct("default-gc", one, GcMode.DEFAULT)
        if "token" in names:
            await self._add_direct("token", await self._feeder("rocksdb", ("--token",)))
        if {"tls", "proxy-tls"} & set(names):
            secured = self.secured_owner = await self._feeder("rocksdb", ("--tls",))
            if "tls" in names:
                await self._add_direct("tls", secured)
            if "proxy-tls" in names:
                await self._add_proxied("proxy-tls", secured)
        if "split" in names:
            await self._add_proxied("split", await self._feeder("rocksdb", ("--servers", "2")))
        if "large-commits" in names:
            feeder = await self._feeder("rocksdb", keys_per_commit=LARGE_COMMIT_KEYS)
            await self._add_direct("large-commits", feeder)
        if "spark" in names:
            feeder = await self._feeder("spark", keys_per_commit=SPARK_KEYS_PER_COMMIT)
            await self._add_direct("spark", feeder)
        await self._add_flink([name for name in names if "flink" in name], jvm_warm_up_s)
        await self._add_redis([name for name in names if name in ("redis", "valkey")])
        titles = list(TITLES.values())
        self.peers.sort(key=lambda peer: titles.index(peer.generator.name))

    def feeder_remarks(self) -> list[str]:
        """The measured rate of updates of each peer, and the sizes of the best redis-py pools."""
        lines = [
            f"{peer.generator.name}: {peer.feeder.updates_per_second:,.0f} updates/s in commits of "
            f"{peer.feeder.keys_per_commit:,} keys, {peer.gc_mode} GC in the client process"
            for peer in self.peers
        ]
        if self.redis is not None and self.redis.sizes:
            sizes = ", ".join(
                f"{operation} {in_flight}: {size}"
                for (operation, in_flight), size in self.redis.sizes.items()
            )
            lines.append(f"connections of redis-py's best pool, by look-ups in flight: {sizes}")
        return lines

    async def _feeder(
        self,
        kind: str,
        arguments: tuple[str, ...] = (),
        *,
        keys_per_commit: int = KEYS_PER_COMMIT,
    ) -> FeederProcess:
        feeder = self._stack.enter_context(
            FeederProcess(
                kind,
                self._dataset,
                updates_per_second=self._updates_per_second,
                keys_per_commit=keys_per_commit,
                arguments=arguments,
            )
        )
        await asyncio.to_thread(feeder.wait_loaded)
        return feeder

    async def _add_direct(
        self, name: str, feeder: FeederProcess, gc_mode: GcMode = GcMode.TUNED
    ) -> MeasuredPeer:
        return await self._add_state(
            name, feeder, feeder.description["proxies"][0], direct=True, gc_mode=gc_mode
        )

    async def _add_proxied(self, name: str, feeder: FeederProcess) -> None:
        address = feeder.description["stand_alone_proxy"]
        await self._add_state(name, feeder, address, direct=False)

    async def _add_state(
        self,
        name: str,
        feeder: FeederProcess,
        address: str,
        *,
        direct: bool,
        gc_mode: GcMode = GcMode.TUNED,
    ) -> MeasuredPeer:
        client = StateClient(
            TITLES[name],
            self._dataset,
            address=address,
            job_id=feeder.description["job_id"],
            direct=direct,
            tls=Tls(ca=feeder.description["ca"]) if feeder.description.get("ca") else False,
            token=feeder.description.get("token") or None,
        )
        return self._add(await self._generator(client), feeder, gc_mode)

    async def _generator(self, client: Client) -> AsyncioLoadGenerator:
        await self._stack.enter_async_context(client)
        return AsyncioLoadGenerator(client, self._dataset)

    def _add(
        self, generator: LoadGenerator, feeder: FeederProcess, gc_mode: GcMode = GcMode.TUNED
    ) -> MeasuredPeer:
        peer = MeasuredPeer(generator, feeder, gc_mode)
        self.peers.append(peer)
        return peer

    async def _add_flink(self, names: Sequence[str], jvm_warm_up_s: float) -> None:
        if not names:
            return
        if missing := await asyncio.to_thread(flink_program.build):
            self.remarks.append(missing)
            return
        versions: dict[str, Any] = {}
        for name in names:
            feeder = await self._feeder(name)
            versions = feeder.description
            generator = await self._stack.enter_async_context(
                FlinkLoadGenerator(
                    TITLES[name],
                    self._dataset,
                    port=versions["port"],
                    job_id=versions["job_id"],
                )
            )
            await asyncio.to_thread(feeder.run)
            await generator.warm_up(jvm_warm_up_s)
            await asyncio.to_thread(feeder.pause)
            self._add(generator, feeder)
        self.remarks.append(f"Apache Flink {versions['version']}, Java {versions['java']}")

    async def _add_redis(self, names: Sequence[str]) -> None:
        if not names:
            return
        port = self._stack.enter_context(redis_server())
        if port is None:
            self.remarks.append(NOT_INSTALLED)
            return
        feeder = await self._feeder("redis", ("--port", str(port)))
        self.remarks.append(f"redis-server {feeder.description['version']}")
        if "redis" in names:
            self.redis = BestRedisPool(TITLES["redis"], self._dataset, port)
            self._add(self.redis, feeder)
            for connections in OPEN_LOOP_POOLS:
                client = RedisClient(
                    f"redis-py, {connections} connections",
                    self._dataset,
                    port,
                    connections=connections,
                )
                generator = await self._generator(client)
                self.open_loop_peers.append(MeasuredPeer(generator, feeder))
        if "valkey" in names:
            valkey = ValkeyClient(TITLES["valkey"], self._dataset, port)
            self.open_loop_peers.append(self._add(await self._generator(valkey), feeder))
