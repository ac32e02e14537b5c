"""A server starts with a checkpoint as a person names it, or says what is wrong with it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.native_state.server.conftest import client_of, everything, until_batch

from queryable_state.server.cli.serve import checked_serve
from queryable_state.server.settings.checkpoint_server_settings import CheckpointServerSettings
from queryable_state.wire.errors import CheckpointError, InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.native_state.server.replay import ReplayedQuery

    from queryable_state.server.native_state.server.native_server import NativeServer

    Serve = Callable[..., NativeServer]


@pytest.mark.parametrize(
    "form", ["{}/", "{}//", "file:{}", "file://{}/", "./all orders", "all orders/"]
)
async def test_a_location_may_be_written_in_several_ways(
    form: str, query: ReplayedQuery, serving: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    query.commit(2)
    root = query.root.rename(query.root.with_name("all orders"))
    monkeypatch.chdir(root.parent)
    settings = checked_serve(CheckpointServerSettings(spark_checkpoint=form.format(root)))
    async with serving(settings.spark_checkpoint, name="") as server, client_of(server) as client:
        [job] = await client.list_jobs()
        assert job.name == "all orders"
        assert (await client.list_states("all orders"))[0].state_name == "aggregation"


async def test_a_follower_waits_for_a_query_that_has_not_started(
    query: ReplayedQuery, serving: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    later = query.root.rename(query.root.with_name("later"))
    server = serving(query.root, follow=True)
    starting = asyncio.create_task(server.__aenter__())
    async with asyncio.timeout(10.0):
        while "waits until the query has started" not in caplog.text:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    later.rename(query.root)
    query.commit(1)
    await starting
    async with server, client_of(server) as client:
        query.commit(3)
        await until_batch(server, 3)
        assert await everything(client)


@pytest.mark.parametrize("follow", [False, True])
async def test_a_folder_that_is_no_checkpoint_is_refused_at_once(
    follow: bool, serving: Serve, tmp_path: Path
) -> None:
    (tmp_path / "other" / "data").mkdir(parents=True)
    with pytest.raises(CheckpointError, match="it has no file `metadata`"):
        await serving(tmp_path / "other", follow=follow).__aenter__()


async def test_a_missing_folder_is_refused_with_the_likely_mistake(
    query: ReplayedQuery, serving: Serve
) -> None:
    query.commit(2)
    root = query.root.rename(query.root.with_name("all orders"))
    with pytest.raises(CheckpointError, match="it is empty or missing: give the checkpointLoc"):
        await serving(query.root).__aenter__()
    with pytest.raises(CheckpointError, match="percent signs are literal"):
        await serving(root.as_uri()).__aenter__()


async def test_a_query_without_state_is_refused(query: ReplayedQuery, serving: Serve) -> None:
    query.commit(2)
    (query.root / "state").rename(query.root / "elsewhere")
    with pytest.raises(InvalidRequestError, match="keeps no state of Spark's own"):
        await serving(query.root, follow=True).__aenter__()


async def test_a_port_that_another_server_has_is_named(
    query: ReplayedQuery, serving: Serve
) -> None:
    query.commit(2)
    async with serving(query.root) as server:
        port = server.address.rpartition(":")[2]
        with pytest.raises(InvalidRequestError, match=f"--port is '{port}', and no port of it"):
            await serving(query.root, ports=port).__aenter__()
