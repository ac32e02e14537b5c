"""Native state is answered to those who may read it, on every port."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest
from tests.security.access.sites import RULES, Asker, write_rules

from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.native_state.server.replay import ReplayedQuery

    from queryable_state.server.native_state.server.native_server import NativeServer

    Serve = Callable[..., NativeServer]

NAMED = {"job": "orders", "state_name": "aggregation"}


async def test_callers_see_what_they_are_granted(
    query: ReplayedQuery, serving: Serve, tmp_path: Path
) -> None:
    query.commit(3)
    rules = RULES.replace('"sensors"', '"orders"').replace('"last"', '"aggregation"')
    access = write_rules(tmp_path, rules)
    settings = {"name": "orders", "access": access, "web": "on", "web_ports": "0"}
    async with serving(query.root, **settings) as server:
        async with Asker(server.address, "scanner") as asker:
            [message, *_] = await asker.ask("ScanKvState", **NAMED)
            located = await asker.ask("LocateState", **NAMED)
            found = query_pb2.Query(
                state_id=located.location.registration.state_id, keys=[message.keys[0].key]
            )
        async with Asker(server.address, "reader") as asker:
            assert await asker.status("BatchGetKvState", query=found) == "OK"
            assert await asker.status("ScanKvState", **NAMED) == "PERMISSION_DENIED"
        async with Asker(server.address, "lister") as asker:
            assert await asker.status("BatchGetKvState", query=found) == "PERMISSION_DENIED"
            assert len((await asker.ask("ListStates", job="orders")).states) == 1
        async with Asker(server.address, None) as asker:
            assert await asker.status("ListJobs") == "UNAUTHENTICATED"
        assert await status_of(f"{server.web_address}/api/v1/jobs") == 401


async def status_of(url: str) -> int:
    """The HTTP status of a request without a token."""

    def ask() -> int:
        try:
            with urllib.request.urlopen(url) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as refused:
            return refused.code

    return await asyncio.to_thread(ask)


async def test_an_open_server_is_not_reached_from_elsewhere(
    query: ReplayedQuery, serving: Serve
) -> None:
    query.commit(3)
    with pytest.raises(InvalidRequestError, match=r"0\.0\.0\.0"):
        await serving(query.root, host="0.0.0.0").__aenter__()
