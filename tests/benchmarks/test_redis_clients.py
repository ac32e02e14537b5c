"""The clients of redis: the search for the best pool of redis-py, and valkey-glide."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from benchmarks.closed_loop import WrongAnswerError
from benchmarks.peers.redis_server import redis_server
from benchmarks.query.clients.load_generator import AsyncioLoadGenerator, Operation
from benchmarks.query.clients.redis_client import BestRedisPool
from benchmarks.query.clients.valkey_client import ValkeyClient
from benchmarks.query.dataset import BATCH_KEYS, Dataset
from benchmarks.query.feeding.redis_target import RedisTarget

if TYPE_CHECKING:
    from collections.abc import Iterator

DATASET = Dataset(2 * BATCH_KEYS)
COUNT = 20
"""Keys of revision 1."""

pytestmark = pytest.mark.skipif(
    shutil.which("redis-server") is None, reason="redis-server is not installed"
)


@pytest.fixture
def port() -> Iterator[int]:
    """The port of a redis-server with the dataset at revision 1."""
    with redis_server() as port:
        assert port is not None
        target = RedisTarget(port, DATASET)
        target.write(0, list(range(DATASET.size)))
        target.write(1, DATASET.updates(1, COUNT))
        yield port


@pytest.mark.parametrize(
    ("in_flight", "sizes"),
    [
        pytest.param(2, {2}, id="fewer look-ups than the smallest pool"),
        pytest.param(9, {4, 8, 9}, id="pools and one connection per look-up"),
    ],
)
async def test_the_best_pool_has_at_most_one_connection_per_look_up(
    port: int, in_flight: int, sizes: set[int]
) -> None:
    best = BestRedisPool("redis", DATASET, port)
    for operation in Operation:
        await best.closed_loop(operation, in_flight, warm_up_s=0.02, seconds=0.1)
        assert best.sizes[operation, in_flight] in sizes


async def test_all_values_are_checked(port: int) -> None:
    best = BestRedisPool("redis", DATASET, port)
    async with ValkeyClient("valkey", DATASET, port) as client:
        for generator in (best, AsyncioLoadGenerator(client, DATASET)):
            await generator.check_all(DATASET.values_at(1, COUNT), 1)
            with pytest.raises(WrongAnswerError, match=generator.name):
                await generator.check_all(DATASET.values_at(0, COUNT), 0)


async def test_valkey_glide_answers_every_operation(port: int) -> None:
    async with ValkeyClient("valkey", DATASET, port) as client:
        generator = AsyncioLoadGenerator(client, DATASET)
        for operation in Operation:
            sample = await generator.closed_loop(operation, 4, warm_up_s=0.1, seconds=0.5)
            assert sample.answers > 0
