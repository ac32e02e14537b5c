"""Keys as Spark groups by them: nulls and lists, and Spark's own hash places them."""

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
LIST = TypeInfo(Kind.LIST, element=TEXT, nullable=True)
TEXTS = {None: 0, "": 1, "a": 2, "null": 3}
PAIRS: dict[Any, int] = {("AA", 1): 0, ("AA", None): 1, (None, 1): 2, (None, None): 3}
LISTS = {None: 0, (): 1, ("a", None): 2, ("a",): 3}


@pytest.fixture
async def client(cluster: InProcessCluster) -> AsyncIterator[QueryableStateClient]:
    types = {"texts": TEXT, "pairs": PAIR, "lists": LIST}
    states = [declare(name, info, max_parallelism=5) for name, info in types.items()]
    for state in states:
        state.partitioner = SPARK_HASH
    job = cluster.job("sensors", *states)
    await job.run(0, {"texts": TEXTS, "pairs": PAIRS, "lists": LISTS})
    async with client_of(cluster.servers[0].addresses.proxy) as opened:
        yield opened


async def test_nulls_are_looked_up(client: QueryableStateClient) -> None:
    contents: dict[str, dict[Any, int]] = {"texts": TEXTS, "pairs": PAIRS, "lists": LISTS}
    for state, content in contents.items():
        found = await client.get_kv_states("sensors", state, list(content))
        assert [each and each.value() for each in found] == list(content.values())
    by_other_forms = (("texts", None, 0), ("pairs", {"carrier": "AA"}, 1), ("lists", ["a"], 3))
    for state, key, expected in by_other_forms:
        one = await client.get_kv_state("sensors", state, key)
        assert one is not None
        assert one.value() == expected
    assert await client.get_kv_state("sensors", "texts", "a", key_type="string") is not None


async def test_nulls_are_scanned(client: QueryableStateClient) -> None:
    texts = {key: state and state.value() async for key, state in client.scan("sensors", "texts")}
    assert texts == TEXTS
    lists = {key: state and state.value() async for key, state in client.scan("sensors", "lists")}
    assert lists == LISTS
    table = await client.scan("sensors", "lists").to_arrow()
    assert sorted(table["value"].to_pylist()) == [0, 1, 2, 3]
    pairs = {
        tuple(key): state and state.value() async for key, state in client.scan("sensors", "pairs")
    }
    assert pairs == PAIRS
    scan = client.scan("sensors", "pairs", prefix=(None,))
    assert {tuple(key) async for key, _ in scan} == {(None, 1), (None, None)}


async def test_a_null_is_explained_and_another_type_refused(client: QueryableStateClient) -> None:
    explained = await client.explain("sensors", "texts", None)
    assert explained.key_group == 42 % 5
    with pytest.raises(KeyTypeError):
        await client.get_kv_state("sensors", "texts", 7)
