"""Operator state is read by subtask or whole, live and committed, through owners and proxies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.client.asking import client_of, until_direct

from queryable_state.client import (
    Consistency,
    InvalidRequestError,
    OperatorState,
    UnknownKeyOrNamespaceError,
)
from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob, declare
from queryable_state.v1 import registration_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from queryable_state.client import QueryableStateClient

STATES = (
    declare("last", "string", "bigint"),
    declare("offsets", value_type="bigint", kind=registration_pb2.OPERATOR_LIST),
    declare("seen", value_type="string", kind=registration_pb2.OPERATOR_UNION),
    declare("rules", value_type="double", kind=registration_pb2.BROADCAST, map_key_type="string"),
)
RULES = {"low": 1.5, "high": 9.0}
FIRST: dict[str, dict[Any, Any]] = {
    "offsets": {0: [1, 2], 1: [3], 2: []},
    "seen": {0: ["a"], 1: ["b"], 2: ["c"]},
    "rules": dict.fromkeys(range(3), RULES),
    "last": {"sensor_1": 7},
}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[InProcessCluster]:
    async with InProcessCluster(tmp_path, servers=2) as made:
        yield made


@pytest.fixture
async def job(cluster: InProcessCluster) -> InProcessJob:
    started = cluster.job("sensors", *STATES, parallelism=3)
    await started.run(0, FIRST)
    return started


@pytest.fixture(params=["direct", "proxy", "unary"])
async def asker(
    request: pytest.FixtureRequest, cluster: InProcessCluster, job: InProcessJob
) -> AsyncIterator[QueryableStateClient]:
    """Clients that use frames to the owners, a proxy, and a proxy that has no frame port."""
    address = cluster.servers[0].addresses.proxy
    if request.param == "unary":
        address = (await cluster.add_proxy(frame_ports="")).address
    async with client_of(address, direct=request.param == "direct") as client:
        if request.param == "direct":
            await until_direct(client, cluster)
        yield client


async def test_a_list_is_read_by_subtask_and_whole(asker: QueryableStateClient) -> None:
    whole = await asker.get_operator_state("sensors", "offsets")
    assert [(each.subtask, each.value) for each in whole] == [(0, [1, 2]), (1, [3]), (2, [])]
    assert whole.get() == [1, 2, 3]
    assert (whole.info.version, whole.kind) == (0, "OPERATOR_LIST")
    assert whole.info.commit_time_ms > 0
    one = await asker.get_operator_state("sensors", "offsets", 1)
    assert [(each.subtask, each.value) for each in one] == [(1, [3])]


async def test_a_union_list_is_the_lists_of_all_subtasks(asker: QueryableStateClient) -> None:
    assert (await asker.get_operator_state("sensors", "seen")).get() == ["a", "b", "c"]


async def test_broadcast_state_is_read_once_and_by_map_key(asker: QueryableStateClient) -> None:
    whole = await asker.get_operator_state("sensors", "rules")
    assert (whole.get(), len(whole)) == (RULES, 1)
    assert (await asker.get_operator_state("sensors", "rules", 2)).get() == RULES
    entry = await asker.get_broadcast_entry("sensors", "rules", "high")
    assert (entry.value(), entry.info.version) == (9.0, 0)
    with pytest.raises(UnknownKeyOrNamespaceError, match="entry 'none' of key 0"):
        await asker.get_broadcast_entry("sensors", "rules", "none")


async def test_a_sealed_batch_is_live_and_a_committed_one_is_read_by_default(
    asker: QueryableStateClient, job: InProcessJob
) -> None:
    await job.seal(1, {"offsets": {0: [9], 1: [3, 4]}})
    where = ("sensors", "offsets")
    live = await asker.get_operator_state(*where, consistency=Consistency.UNCOMMITTED)
    assert live.get() == [9, 3, 4]
    assert (await asker.get_operator_state(*where)).get() == [1, 2, 3]
    await job.commit(1)
    later = await asker.get_operator_state(*where, consistency=Consistency.at_least(1))
    assert (later.get(), later.info.version) == ([9, 3, 4], 1)


async def test_a_whole_read_is_of_one_batch_if_asked(
    asker: QueryableStateClient, job: InProcessJob
) -> None:
    for batch in range(1, 6):
        await job.run(batch, {"offsets": {index: [batch] for index in range(3)}})
        whole = await asker.get_operator_state("sensors", "offsets", one_cut=True)
        [version] = {each.info.version for each in whole}
        assert whole.get() == ([version] * 3 if version else [1, 2, 3])


async def test_a_subtask_is_a_key_of_all_other_lookups(asker: QueryableStateClient) -> None:
    assert (await asker.get_kv_state("sensors", "offsets", 0)).get() == [1, 2]
    assert (await asker.size("sensors", "offsets", 0)).elements == 2
    assert await asker.contains("sensors", "rules", 1, "low")
    assert not await asker.contains("sensors", "offsets", 2)
    with pytest.raises(UnknownKeyOrNamespaceError):
        await asker.get_kv_state("sensors", "offsets", 2)


async def test_a_wrong_question_is_refused_with_the_right_one(asker: QueryableStateClient) -> None:
    with pytest.raises(InvalidRequestError, match="read it with get_kv_state"):
        await asker.get_operator_state("sensors", "last")
    with pytest.raises(InvalidRequestError, match=r"no subtask 3: .* 0 to 2"):
        await asker.get_operator_state("sensors", "offsets", 3)
    with pytest.raises(InvalidRequestError, match="no keys to scan"):
        await asker.scan("sensors", "offsets").next_page()


async def test_states_are_listed_with_their_kind(asker: QueryableStateClient) -> None:
    states = await asker.list_states("sensors")
    assert {state.state_name: state.kind for state in states} == {
        "last": "VALUE",
        "offsets": "OPERATOR_LIST",
        "rules": "BROADCAST",
        "seen": "OPERATOR_UNION",
    }
    assert (await asker.measure("sensors", "offsets")).records == 3


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
@pytest.mark.parametrize("sealed", [[0], [2], [0, 2]])
async def test_what_a_run_at_another_parallelism_sealed_in_part_is_no_state(
    tmp_path: Path, backend: str, sealed: list[int]
) -> None:
    """No element is lost or comes twice over 2, 3, 2 and 4 subtasks, also with servers gone."""
    async with InProcessCluster(tmp_path, servers=2, backend=backend) as cluster:
        job = cluster.job("rescaled", *STATES, parallelism=2, durable=True)
        await job.run(0, {**FIRST, "offsets": {0: [1, 2], 1: [3, 4]}, "seen": {0: ["a"], 1: ["b"]}})
        wrong: dict[str, dict[Any, Any]] = {
            "offsets": {subtask: [9] for subtask in sealed},
            "seen": {subtask: ["z"] for subtask in sealed},
            "last": {f"sensor_{number}": 9 for number in range(20)},
        }
        for batch, parallelism in ((1, 2), (2, 2), (3, 4)):
            wider = job.restart(parallelism=3)
            await wider.seal(batch, wrong, subtasks=sealed)
            if batch == 2:
                for server in list(cluster.servers):
                    await cluster.respawn_server(server)
            job = wider.restart(parallelism=parallelism)
            await job.run(batch, {"last": {f"batch_{batch}": batch}})
            async with client_of(cluster.servers[0].addresses.proxy) as client:
                fresh = Consistency.at_least(batch)
                read = {
                    name: await client.get_operator_state("rescaled", name, consistency=fresh)
                    for name in ("offsets", "seen", "rules")
                }
                keys = ["sensor_1", "sensor_7", f"batch_{batch}"]
                last = await client.get_kv_states("rescaled", "last", keys, consistency=fresh)
            assert sorted(read["offsets"].get()) == [1, 2, 3, 4]
            seen = [each.value for each in read["seen"]]
            assert seen == ([["a"], ["b"]] if parallelism == 2 else [["a", "b"]] * 4)
            assert read["rules"].get() == RULES
            assert [each and each.value() for each in last] == [7, None, batch]


async def test_a_client_follows_another_parallelism(
    cluster: InProcessCluster, tmp_path: Path
) -> None:
    """The elements of a list are dealt out; each subtask has all of a union and the broadcast."""
    job = cluster.job("rescaled", *STATES, parallelism=2, durable=True)
    await job.run(0, {**FIRST, "offsets": {0: [1, 2], 1: [3, 4]}, "seen": {0: ["a"], 1: ["b"]}})
    async with client_of(cluster.servers[0].addresses.proxy) as client:
        assert (await client.get_operator_state("rescaled", "offsets")).get() == [1, 2, 3, 4]
        wider = job.restart(parallelism=3)
        await wider.run(1, {})
        read: dict[str, OperatorState] = {
            name: await client.get_operator_state(
                "rescaled", name, consistency=Consistency.at_least(1)
            )
            for name in ("offsets", "seen", "rules")
        }
        assert [each.value for each in read["offsets"]] == [[1, 4], [2], [3]]
        assert [each.value for each in read["seen"]] == [["a", "b"]] * 3
        assert read["rules"].get() == RULES
