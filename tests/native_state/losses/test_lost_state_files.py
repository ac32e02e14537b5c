"""A state file of one operator is lost or damaged: its reads are refused, the others are served.

The queries have a deduplication and two aggregations behind it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.native_state.archives import unpack
from tests.native_state.server.conftest import (
    client_of,
    everything,
    keys_of,
    serving,
    until_batch,
)
from tests.native_state.server.replay import ReplayedQuery
from tests.waiting import eventually

from queryable_state.wire.errors import CorruptDataError

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.client import JobDescription, QueryableStateClient
    from queryable_state.server.native_state.server.native_server import NativeServer

    Serve = Callable[..., NativeServer]

__all__ = ["serving"]

_FIXTURES = Path(__file__).parent.parent / "fixtures"
_STATES = {"aggregation_0", "aggregation_1", "deduplication"}
_OPERATORS = ["aggregation_0", "aggregation_1", "deduplication"]
"""By Spark's number."""


@pytest.fixture(params=["rocksdb", "hdfs"])
def chained(request: pytest.FixtureRequest, tmp_path: Path) -> ReplayedQuery:
    """Nothing is committed yet; up to batch 5 there are changes of each batch."""
    if request.param == "hdfs":
        return ReplayedQuery.of_fixture("chained-hdfs", tmp_path)
    unpack(_FIXTURES / "chained.tar.xz", tmp_path / "whole")
    return ReplayedQuery(tmp_path / "whole" / "chained" / "checkpoint", tmp_path / "checkpoint")


def changes(query: ReplayedQuery, operator: int, partition: int, batch: int) -> Path:
    """The file with the changes of a batch."""
    folder = query.root / "state" / str(operator) / str(partition)
    (path,) = (each for each in folder.glob(f"{batch + 1}.*") if each.suffix in _CHANGES)
    return path


_CHANGES = (".changelog", ".delta")


def lose_snapshots(query: ReplayedQuery) -> None:
    """So that every batch needs the changes of all batches before it."""
    for path in query.state_files(".zip", ".snapshot"):
        path.unlink()


async def all_states(client: QueryableStateClient, names: set[str] = _STATES) -> dict[str, Any]:
    """Every key of these states."""
    return {each: await everything(client, each) for each in names}


async def whole_query(serving: Serve, root: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Every key of every state of a query without losses, and a key of each state."""
    async with serving(root) as server, client_of(server) as client:
        keys = {each: (await keys_of(client, each))[0] for each in _STATES}
        return await all_states(client), keys


async def refused(client: QueryableStateClient, state: str, key: Any, *names: str) -> None:
    """Look-up, explanation and scan of a state are refused, and the text has all names."""
    for call in (client.get_kv_state("query", state, key), everything(client, state)):
        with pytest.raises(CorruptDataError) as problem:
            await call
        assert all(name in problem.value.message for name in names), problem.value.message
    try:
        explained = str(await client.explain("query", state, key))
    except CorruptDataError as problem:
        explained = problem.message
    assert all(name in explained for name in names), explained


async def described(server: NativeServer, *, problem: str) -> JobDescription:
    """Waits until the description of the query names a problem; empty: none."""
    async with client_of(server) as client:

        async def is_said() -> bool:
            said = (await client.describe_job()).info.problem
            return problem in said if problem else not said

        await eventually(is_said)
        return await client.describe_job()


@pytest.mark.parametrize("operator", [0, 1, 2])
@pytest.mark.parametrize("lazy", [False, True])
async def test_the_other_operators_are_served_beside_a_lost_file(
    operator: int, chained: ReplayedQuery, serving: Serve, *, lazy: bool
) -> None:
    chained.commit(5)
    lose_snapshots(chained)
    whole, keys = await whole_query(serving, chained.root)
    state, lost = _OPERATORS[operator], changes(chained, operator, 1, 3)
    lost.unlink()
    async with serving(chained.root, lazy=lazy) as server, client_of(server) as client:
        if lazy:
            # It is found once somebody asks for it.
            with pytest.raises(CorruptDataError, match=str(lost)):
                await everything(client, state)
        assert {each.state_name for each in await client.list_states("query")} == _STATES - {state}
        for name in _STATES - {state}:
            assert await everything(client, name) == whole[name]
        others = ", ".join(sorted(_STATES - {state}))
        names = (str(lost), "version 4 is missing", f"{others} can")
        await refused(client, state, keys[state], *names)
        said = await client.describe_job()
        assert str(lost) in said.info.problem
        assert [each.code for each in said.findings] == ["STATE_UNREADABLE"]


async def test_the_others_advance_while_one_operator_stays_broken(
    chained: ReplayedQuery, serving: Serve
) -> None:
    chained.commit(5)
    lose_snapshots(chained)
    whole, keys = await whole_query(serving, chained.root)
    later = ReplayedQuery(chained.root, chained.root.parent / "later")
    path = later.root / changes(chained, 1, 0, 3).relative_to(chained.root)
    later.commit(2)
    async with serving(later.root, follow=True) as server, client_of(server) as client:
        placed = server.served.placement_version
        # The query writes everything of the batch but this file.
        lost = changes(chained, 1, 0, 3)
        data = lost.read_bytes()
        lost.unlink()
        later.commit(3)
        await until_batch(server, 3)
        await refused(
            client,
            "aggregation_1",
            keys["aggregation_1"],
            str(path),
            "batch 3 is committed",
            "batch 2",
        )
        said = await described(server, problem=str(path))
        assert said.info.health == "ATTENTION"
        for batch in (4, 5):
            later.commit(batch)
            await until_batch(server, batch)
        others = _STATES - {"aggregation_1"}
        assert await all_states(client, others) == {each: whole[each] for each in others}
        # No state is loaded again because of the loss.
        assert server.served.placement_version == placed
        path.write_bytes(data)
        await described(server, problem="")
        assert await all_states(client) == whole


async def test_a_damaged_file_is_read_again_once_it_is_whole(
    chained: ReplayedQuery, serving: Serve
) -> None:
    """Also if a second file turns out to be damaged meanwhile, and without a further batch."""
    chained.commit(5)
    lose_snapshots(chained)
    whole, keys = await whole_query(serving, chained.root)
    paths = [changes(chained, 2, 0, 2), changes(chained, 2, 0, 4)]
    kept = [path.read_bytes() for path in paths]
    for path in paths:
        path.write_bytes(path.read_bytes()[:30])
    async with serving(chained.root, follow=True) as server, client_of(server) as client:
        await refused(client, "deduplication", keys["deduplication"], str(paths[0]))
        paths[0].write_bytes(kept[0])
        await described(server, problem=str(paths[1]))
        await refused(client, "deduplication", keys["deduplication"], str(paths[1]))
        paths[1].write_bytes(kept[1])
        await described(server, problem="")
        assert await all_states(client) == whole


async def test_a_query_of_which_no_operator_is_whole_is_refused(
    chained: ReplayedQuery, serving: Serve
) -> None:
    chained.commit(5)
    lose_snapshots(chained)
    for operator in range(3):
        changes(chained, operator, 0, 3).unlink()
    with pytest.raises(CorruptDataError, match="version 4 is missing"):
        await serving(chained.root).__aenter__()


async def test_a_watch_of_a_lost_state_ends_and_says_why(
    chained: ReplayedQuery, serving: Serve
) -> None:
    chained.commit(3)
    lose_snapshots(chained)
    later = ReplayedQuery(chained.root, chained.root.parent / "later")
    later.commit(2)
    async with (
        serving(later.root, follow=True) as server,
        client_of(server) as client,
        client.watch("query", "deduplication") as watch,
    ):
        lost = changes(chained, 2, 0, 3)
        lost.unlink()
        later.commit(3)

        async def follow() -> None:
            async for change in watch:
                assert change.batch <= 3

        with pytest.raises(CorruptDataError, match=str(lost.relative_to(chained.root))):
            await follow()
