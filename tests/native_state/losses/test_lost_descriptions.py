"""Operators whose metadata or schema is lost or damaged: they are named, and the others served."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.native_state.archives import unpack
from tests.native_state.server.conftest import client_of, everything, serving, until_batch
from tests.native_state.server.replay import ReplayedQuery
from tests.waiting import eventually

from queryable_state.cli import main
from queryable_state.wire.errors import CorruptDataError, UnknownStateError

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.server.native_state.server.native_server import NativeServer

    Serve = Callable[..., NativeServer]

__all__ = ["serving"]

_FIXTURES = Path(__file__).parent.parent / "fixtures"
_STATES = {"aggregation_0", "aggregation_1", "deduplication"}
_LOST = [
    ("state/1/0/_metadata/schema", "aggregation_1", "lost"),
    ("state/1/0/_metadata/schema", "aggregation_1", "empty"),
    ("state/1/0/_metadata/schema", "aggregation_1", "cut"),
    ("state/2/0/_metadata/schema", "deduplication", "lost"),
    ("state/2/_metadata/metadata", "deduplication", "cut"),
]


@pytest.fixture
def chained(tmp_path: Path) -> ReplayedQuery:
    """Two aggregations behind a deduplication."""
    unpack(_FIXTURES / "chained.tar.xz", tmp_path / "whole")
    return ReplayedQuery(tmp_path / "whole" / "chained" / "checkpoint", tmp_path / "checkpoint")


def lose(path: Path, how: str) -> bytes:
    """Damages a file; returns what it was."""
    data = path.read_bytes()
    if how == "lost":
        path.unlink()
    else:
        path.write_bytes(b"" if how == "empty" else data[: len(data) // 2])
    return data


@pytest.mark.parametrize(("file", "state", "how"), _LOST)
async def test_an_operator_without_its_description_is_left_out(
    file: str,
    state: str,
    how: str,
    chained: ReplayedQuery,
    serving: Serve,
    capsys: pytest.CaptureFixture[str],
) -> None:
    chained.commit(chained.last_batch)
    async with serving(chained.root) as server, client_of(server) as client:
        assert {each.state_name for each in await client.list_states("query")} == _STATES
        whole = {each: await everything(client, each) for each in _STATES}
    lose(chained.root / file, how)
    async with serving(chained.root) as server, client_of(server) as client:
        found = {each.state_name for each in await client.list_states("query")}
        assert found == _STATES - {state}
        assert {each: await everything(client, each) for each in found} == {
            each: whole[each] for each in found
        }
        (job,) = await client.list_jobs()
        assert str(chained.root / file) in job.problem
        with pytest.raises(UnknownStateError, match=file):
            await client.get_kv_state("query", state, "any")
    main(["checkpoints", str(chained.root)])
    assert f"{chained.root / file} is " in capsys.readouterr().out


async def test_a_description_that_is_put_back_is_served_with_the_next_batch(
    chained: ReplayedQuery, serving: Serve
) -> None:
    chained.commit(3)
    schema = chained.root / "state/1/0/_metadata/schema"
    data = lose(schema, "lost")
    async with serving(chained.root, follow=True) as server, client_of(server) as client:
        before = server.served.placement_version
        chained.commit(4)
        await until_batch(server, 4)
        # The loss is known: no state is loaded again because of it.
        assert server.served.placement_version == before
        schema.write_bytes(data)
        chained.commit(5)

        async def is_whole() -> bool:
            return {each.state_name for each in await client.list_states("query")} == _STATES

        await eventually(is_whole)
        assert await everything(client, "aggregation_1")
        assert not (await client.list_jobs())[0].problem


async def test_a_query_of_which_no_operator_is_described_is_refused(
    chained: ReplayedQuery, serving: Serve
) -> None:
    chained.commit(3)
    for operator in range(3):
        lose(chained.root / f"state/{operator}/0/_metadata/schema", "lost")
    with pytest.raises(CorruptDataError, match="_metadata/schema is lost: batch 3"):
        await serving(chained.root).__aenter__()
