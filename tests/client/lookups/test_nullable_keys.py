"""Keys as Spark groups by them: they may be null, and Spark's own hash places them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.client.asking import client_of

from queryable_state.client import KeyTypeError
from queryable_state.server.testing.cluster import declare
from queryable_state.v1.registration_pb2 import SPARK_HASH
from queryable_state.wire.schema.type_model import Field, Kind, TypeInfo

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from queryable_state.client import QueryableStateClient
    from queryable_state.server.testing.cluster import InProcessCluster

TEXT = TypeInfo(Kind.STRING, nullable=True)
PAIR = TypeInfo(
    Kind.ROW,
    fields=(Field("carrier", TEXT), Field("day", TypeInfo(Kind.INT, nullable=True))),
    nullable=True,
)
TEXTS = {None: 0, "": 1, "a": 2, "null": 3}
PAIRS: dict[Any, int] = {("AA", 1): 0, ("AA", None): 1, (None, 1): 2, (None, None): 3}


@pytest.fixture
async def client(cluster: InProcessCluster) -> AsyncIterator[QueryableStateClient]:
    states = [declare("texts", TEXT, max_parallelism=5), declare("pairs", PAIR, max_parallelism=5)]
    for state in states:
        state.partitioner = SPARK_HASH
    job = cluster.job("sensors", *states)
    await job.run(0, {"texts": TEXTS, "pairs": PAIRS})
    async with client_of(cluster.servers[0].addresses.proxy) as opened:
        yield opened


async def test_nulls_are_looked_up(client: QueryableStateClient) -> None:
    for state, content in (("texts", TEXTS), ("pairs", PAIRS)):
        found = await client.get_kv_states("sensors", state, list(content))
        assert [each and each.value() for each in found] == list(content.values())
    for state, key, expected in (("texts", None, 0), ("pairs", {"carrier": "AA"}, 1)):
        one = await client.get_kv_state("sensors", state, key)
        assert one is not None
        assert one.value() == expected
    assert await client.get_kv_state("sensors", "texts", "a", key_type="string") is not None


async def test_nulls_are_scanned(client: QueryableStateClient) -> None:
    texts = {key: state.value() async for key, state in client.scan("sensors", "texts")}
    assert texts == TEXTS
    pairs = {tuple(key): state.value() async for key, state in client.scan("sensors", "pairs")}
    assert pairs == PAIRS
    scan = client.scan("sensors", "pairs", prefix=(None,))
    assert {tuple(key) async for key, _ in scan} == {(None, 1), (None, None)}


async def test_a_null_is_explained_and_another_type_refused(client: QueryableStateClient) -> None:
    explained = await client.explain("sensors", "texts", None)
    assert explained.key_group == 42 % 5
    with pytest.raises(KeyTypeError):
        await client.get_kv_state("sensors", "texts", 7)
