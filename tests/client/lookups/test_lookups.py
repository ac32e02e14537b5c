"""Answers of a query, for every kind of state and every way to name a key."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest
from tests.client.asking import client_of, until_direct

from queryable_state.client import (
    AggregatingState,
    Consistency,
    InvalidRequestError,
    KvState,
    ListState,
    MapState,
    PickledValue,
    ReducingState,
    Role,
    ValueState,
)
from queryable_state.server.testing.cluster import declare

if TYPE_CHECKING:
    from queryable_state.client import QueryableStateClient
    from queryable_state.server.state_server.queries.state_reader import StateReader
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob
    from queryable_state.v1 import query_pb2


async def test_a_value_state_has_a_value(client: QueryableStateClient) -> None:
    state = await client.get_kv_state("sensors", "last", "sensor_7")
    assert isinstance(state, ValueState)
    assert state.value() == 7.0


async def test_a_list_state_has_its_elements_in_order(client: QueryableStateClient) -> None:
    state = await client.get_kv_state("sensors", "seen", "sensor_1")
    assert isinstance(state, ListState)
    assert state.get() == ["a", "b"]
    assert (len(state), list(state), state.is_empty()) == (2, ["a", "b"], False)


async def test_a_list_grows_with_each_batch(
    client: QueryableStateClient, job: InProcessJob
) -> None:
    await job.run(2, {"seen": {"sensor_1": ["c"]}})
    assert (await client.get_kv_state("sensors", "seen", "sensor_1")).get() == ["a", "b", "c"]


async def test_a_map_state_reads_like_a_mapping(client: QueryableStateClient) -> None:
    state = await client.get_kv_state("sensors", "counts", "sensor_1")
    assert isinstance(state, MapState)
    assert dict(state.items()) == {"x": 1, "y": 2}
    assert (list(state.keys()), list(state.values())) == (["x", "y"], [1, 2])
    assert (state.get("x"), state.get("z"), state.contains("y"), "z" in state) == (
        1,
        None,
        True,
        False,
    )


async def test_reduced_values_and_results_are_gotten(client: QueryableStateClient) -> None:
    reduced = await client.get_kv_state("sensors", "maximum", "sensor_1")
    result = await client.get_kv_state("sensors", "mean", "sensor_1")
    assert isinstance(reduced, ReducingState)
    assert isinstance(result, AggregatingState)
    assert (reduced.get(), result.get()) == (99, 0.5)


async def test_a_job_may_be_named_in_every_way(
    client: QueryableStateClient, job: InProcessJob
) -> None:
    """By name, by id with and without dashes, as a UUID, and not at all while there is one."""
    as_uuid = uuid.UUID(job.job_id)
    for named in ("sensors", job.job_id, str(as_uuid), job.job_id.upper(), as_uuid, None):
        assert (await client.get_kv_state(named, "last", "sensor_1")).value() == 1.0


async def test_every_answer_says_when_and_where_it_was_read(
    client: QueryableStateClient, cluster: InProcessCluster
) -> None:
    info = (await client.get_kv_state("sensors", "last", "sensor_1")).info
    assert info.version == 1
    assert info.commit_time_ms > 0
    assert info.watermark_ms == 1
    assert info.role is Role.OWNER
    assert info.server_id in {server.server_id for server in cluster.servers}
    assert info.complete_since_batch == 0


async def test_a_multi_get_is_aligned_with_its_keys(client: QueryableStateClient) -> None:
    """Missing keys are None; a key asked for twice is answered twice."""
    keys = ["sensor_3", "nobody", "sensor_1", "sensor_3"]
    states = await client.get_kv_states("sensors", "last", keys)
    assert [state and state.value() for state in states] == [3.0, None, 1.0, 3.0]
    assert await client.get_kv_states("sensors", "last", []) == []


async def test_a_multi_get_may_have_any_number_of_keys(client: QueryableStateClient) -> None:
    """More than fit in one message, and over both owners."""
    keys = [f"sensor_{number % 100}" for number in range(3000)]
    states = await client.get_kv_states("sensors", "last", iter(keys))
    assert [state and state.value() for state in states] == [n % 100 for n in range(3000)]


async def test_sealed_batches_are_seen_only_by_those_who_ask(
    client: QueryableStateClient, job: InProcessJob
) -> None:
    await job.seal(2, {"last": {"sensor_1": -1.0}})
    committed = await client.get_kv_state("sensors", "last", "sensor_1")
    staged = await client.get_kv_state(
        "sensors", "last", "sensor_1", consistency=Consistency.UNCOMMITTED
    )
    assert (committed.value(), committed.info.version) == (1.0, 1)
    assert (staged.value(), staged.info.version) == (-1.0, 2)
    await job.commit(2)
    assert (await client.get_kv_state("sensors", "last", "sensor_1")).value() == -1.0


async def test_jobs_and_states_are_listed(client: QueryableStateClient, job: InProcessJob) -> None:
    [listed] = await client.list_jobs()
    assert (listed.job_id, listed.name, listed.status) == (job.job_id, "sensors", "RUNNING")
    assert listed.states == ("counts", "last", "maximum", "mean", "seen")
    states = {state.state_name: state for state in await client.list_states("sensors")}
    assert set(states) == set(listed.states)
    assert states["counts"].kind == "MAP"
    assert states["last"].key_type.simple_string() == "string"
    assert str(states["last"].value_type and states["last"].value_type.simple_string()) == "double"


async def test_owners_are_queried_directly_and_through_a_proxy_alike(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    """Any proxy answers any key: of a server, and of its own."""
    proxy = await cluster.add_proxy()
    for address in (proxy.address, *(server.addresses.proxy for server in cluster.servers)):
        for direct in (True, False):
            async with client_of(address, direct=direct) as client:
                states = await client.get_kv_states("sensors", "last", ["sensor_1", "sensor_2"])
                assert [state and state.value() for state in states] == [1.0, 2.0]
                jobs = await client.list_jobs()
                assert [listed.name for listed in jobs] == ["sensors"]


async def test_a_pickled_value_is_loaded_only_on_request(
    cluster: InProcessCluster,
) -> None:
    job = cluster.job("pickles", declare("any", "string", "pickled"))
    await job.run(0, {"any": {"k": {"x": [1]}}})
    address = cluster.servers[0].addresses.proxy
    async with client_of(address) as careful, client_of(address, unpickle=True) as trusting:
        assert isinstance((await careful.get_kv_state(None, "any", "k")).value(), PickledValue)
        assert (await trusting.get_kv_state(None, "any", "k")).value() == {"x": [1]}


async def test_a_state_that_appears_later_is_found(
    client: QueryableStateClient, cluster: InProcessCluster
) -> None:
    """That it was unknown is not remembered."""
    await client.get_kv_states("sensors", "last", ["sensor_1"])
    late = cluster.job("late", declare("arrives", "bigint", "string"))
    pending = client.get_kv_states("late", "arrives", [1])
    assert isinstance(await _outcome(pending), Exception)
    await late.run(0, {"arrives": {1: "here"}})
    assert (await client.get_kv_state("late", "arrives", 1)).value() == "here"


@pytest.mark.parametrize("method", ["update", "add", "add_all", "put", "put_all", "remove"])
async def test_states_are_read_only(client: QueryableStateClient, method: str) -> None:
    for name in ("last", "seen", "counts", "maximum", "mean"):
        state = await client.get_kv_state("sensors", name, "sensor_1")
        with pytest.raises(InvalidRequestError, match="read-only"):
            getattr(state, method)("x")
        with pytest.raises(InvalidRequestError, match="read-only"):
            state.clear()


async def test_a_method_another_kind_has_says_what_this_one_has(
    client: QueryableStateClient,
) -> None:
    state = await client.get_kv_state("sensors", "last", "sensor_1")
    with pytest.raises(InvalidRequestError, match=r"a value state has no items\(\): it has value"):
        state.items()
    reduced = await client.get_kv_state("sensors", "maximum", "sensor_1")
    with pytest.raises(InvalidRequestError, match="takes no key"):
        reduced.get("sensor_1")


async def test_keys_requested_in_one_turn_travel_together(
    client: QueryableStateClient, cluster: InProcessCluster
) -> None:
    """A thousand awaits are two messages an owner at most, not a thousand."""
    await until_direct(client, cluster)
    asked: list[int] = []
    for server in cluster.servers:
        count_keys(server.engine, asked)
    futures = [client.get_kv_state("sensors", "last", f"sensor_{n % 100}") for n in range(1000)]
    states: list[KvState] = [await future for future in futures]
    assert [state.value() for state in states] == [n % 100 for n in range(1000)]
    assert sum(asked) == 1000
    assert len(asked) <= 4


def count_keys(engine: StateReader, asked: list[int]) -> None:
    """Notes how many keys each query has that reaches an engine."""
    answer = engine.answer

    def noted(query: query_pb2.Query) -> query_pb2.Answer | None:
        asked.append(len(query.keys))
        return answer(query)

    engine.answer = noted  # type: ignore[method-assign]


async def _outcome(future: object) -> object:
    try:
        return await future  # type: ignore[misc]
    except Exception as error:  # noqa: BLE001 - the outcome is what is looked at
        return error
