"""Servers that share a query ask each other with signed calls, so that tokens are no obstacle."""

from __future__ import annotations

import asyncio
import json
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
from tests.native_state.server.conftest import client_of, everything, keys_of
from tests.native_state.server.shared_servers import free_ports, json_of, two_servers
from tests.security.access.sites import RULES, Asker, token, write_rules

from queryable_state.cli import main
from queryable_state.cli.exit_codes import REFUSED
from queryable_state.client import QueryableStateClient
from queryable_state.wire.addresses import host_and_port
from queryable_state.wire.errors import InvalidRequestError, RetryLaterError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.native_state.server.replay import ReplayedQuery

    from queryable_state.server.native_state.server.native_server import NativeServer
    from queryable_state.server.security.access.access_settings import AccessSettings

    Serve = Callable[..., NativeServer]

NAMED = {"job": "query", "state_name": "aggregation"}
OPEN = {"frame_ports": "0"}
ABSENT = {"frame_ports": ""}


@pytest.fixture
def access(tmp_path: Path) -> AccessSettings:
    """Tokens of callers that may read or scan the query's state."""
    rules = RULES.replace('"sensors"', '"query"').replace('"last"', '"aggregation"')
    return write_rules(tmp_path, rules)


def unreachable() -> dict[str, Any]:
    """Settings of a frame port of which only the server knows the right number."""
    return {"frame_ports": "0", "advertised_frame_port": free_ports(1)[0]}


@pytest.mark.parametrize("frames", [OPEN, ABSENT, unreachable()], ids=["open", "none", "closed"])
async def test_each_server_answers_for_the_other_one(
    query: ReplayedQuery, serving: Serve, access: AccessSettings, frames: dict[str, Any]
) -> None:
    query.commit(4)
    async with serving(query.root) as server, client_of(server) as client:
        whole, keys = await everything(client), await keys_of(client)
    settings = {"access": access, "secret": "shared", "web": "on", "web_ports": "0", **frames}
    async with two_servers(serving, query.root, **settings) as running:
        for server in running:
            await json_calls(server, keys, len(whole))
            await rest_calls(server, keys)
            host, port = host_and_port(server.address)
            async with QueryableStateClient(host, port, token=token("all")) as client:
                assert await everything(client) == whole
                found = await client.get_kv_states("query", "aggregation", keys, one_cut=True)
                assert [each and each.value() for each in found] == list(whole.values())
                await client.hot_keys("query", "aggregation")


async def json_calls(server: NativeServer, keys: list[Any], number: int) -> None:
    """Calls of programs without our client, which ask one server for everything."""
    async with Asker(server.address, "reader") as asker:
        for key in keys[:4] + keys[-4:]:
            answer = await asker.ask("GetKvState", **NAMED, key_json=json_of(key))
            assert answer.value_json
        assert await asker.status("ScanKvState", **NAMED) == "PERMISSION_DENIED"
    async with Asker(server.address, "scanner") as asker:
        messages = await asker.ask("ScanKvState", **NAMED)
        assert sum(len(each.keys) for each in messages) == number
        measured = await asker.ask("MeasureState", **NAMED)
        assert sum(each.keys for each in measured.parts) == number
        answer = await asker.status("GetKvState", **NAMED, key_json=json_of(keys[0]))
        assert answer == "PERMISSION_DENIED"


async def rest_calls(server: NativeServer, keys: list[Any]) -> None:
    state = f"{server.web_address}/api/v1/jobs/query/states/aggregation"
    for key in keys[:4] + keys[-4:]:
        found = await rest(f"{state}/value?key={urllib.parse.quote(json_of(key))}")
        assert found["value"]


async def rest(url: str) -> Any:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token('reader')}"})

    def ask() -> Any:
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    return await asyncio.to_thread(ask)


async def test_servers_with_different_secrets_say_so(
    query: ReplayedQuery, serving: Serve, access: AccessSettings
) -> None:
    query.commit(4)
    async with serving(query.root) as server, client_of(server) as client:
        keys = await keys_of(client)
    secrets = ({"secret": "one"}, {"secret": "another"})
    async with (
        two_servers(serving, query.root, *secrets, access=access, default_deadline_ms=300) as (
            server,
            _,
        ),
        Asker(server.address, "all") as asker,
    ):
        found, refused = [], []
        for key in keys[:4] + keys[-4:]:
            try:
                found.append(await asker.ask("GetKvState", **NAMED, key_json=json_of(key)))
            except RetryLaterError as refusal:
                refused.append(refusal.message)
        assert found
        assert "all need the same --secret-file" in refused[0]
        with pytest.raises(RetryLaterError, match="all need the same --secret-file"):
            await asker.ask("ScanKvState", **NAMED)


def test_several_servers_with_tokens_and_without_a_secret_are_refused(
    query: ReplayedQuery, serving: Serve, access: AccessSettings
) -> None:
    query.commit(1)
    with pytest.raises(InvalidRequestError, match="--secret-file"):
        serving(query.root, servers=("a:1", "b:1"), access=access)
    serving(query.root, servers=("a:1",), access=access)
    serving(query.root, servers=("a:1", "b:1"))


def test_the_secret_comes_from_a_file(
    query: ReplayedQuery,
    access: AccessSettings,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shared = ["config", "serve", "--spark-checkpoint", str(query.root), "--servers", "a:1,b:1"]
    shared += ["--access-file", access.access_file]
    assert main(shared) == REFUSED
    assert "--secret-file" in capsys.readouterr().err
    file = tmp_path / "secret"
    shared += ["--secret-file", str(file)]
    assert main(shared) == REFUSED
    assert f"cannot read --secret-file {file}" in capsys.readouterr().err
    file.write_text("\n")
    assert main(shared) == REFUSED
    assert "is empty" in capsys.readouterr().err
    file.write_text("shared\n")
    assert main(shared) == 0
    assert "shared" not in capsys.readouterr().out
