"""`queryable-state` with tokens, and the command that makes them."""

from __future__ import annotations

import asyncio
import tomllib
from typing import TYPE_CHECKING

import pytest
from tests.security.access.sites import token

from queryable_state.cli import main
from queryable_state.cli.exit_codes import REFUSED
from queryable_state.server.security.access.tokens import digest_of

if TYPE_CHECKING:
    from pathlib import Path

    from queryable_state.server.query.proxy.proxy_server import ProxyServer


@pytest.mark.parametrize("name", ["dashboard", "a b", 'say "hi"', "team.one"])
def test_the_command_prints_a_token_and_its_line(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["token", name]) == 0
    first, _, table = capsys.readouterr().out.partition("\n")
    assert tomllib.loads(table) == {"tokens": {name: digest_of(first)}}


@pytest.mark.parametrize("name", ["", "anonymous", "\n"])
def test_a_name_that_cannot_be_used_is_refused(name: str) -> None:
    assert main(["token", name]) == REFUSED


async def run(proxy: ProxyServer, *words: str) -> int:
    return await asyncio.to_thread(main, [*words, "--server", proxy.address])


async def test_the_token_comes_from_a_file_or_the_environment(
    proxy: ProxyServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert await run(proxy, "get", "last", "sensor_1", "--job", "sensors") == REFUSED
    assert "--token-file" in capsys.readouterr().err
    file = tmp_path / "token"
    file.write_text(token("reader") + "\n")
    words = ["get", "last", "sensor_1", "--job", "sensors"]
    assert await run(proxy, *words, "--token-file", str(file)) == 0
    assert "1.0" in capsys.readouterr().out
    monkeypatch.setenv("QUERYABLE_STATE_TOKEN", token("lister"))
    assert await run(proxy, *words) == REFUSED
    assert "may not read state 'last'" in capsys.readouterr().err
    assert await run(proxy, "states") == 0
    assert "seen" in capsys.readouterr().out


async def test_an_unreadable_token_file_is_named(
    proxy: ProxyServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await run(proxy, "jobs", "--token-file", str(tmp_path / "none")) == REFUSED
    assert "--token-file" in capsys.readouterr().err
    empty = tmp_path / "empty"
    empty.write_text("")
    assert await run(proxy, "jobs", "--token-file", str(empty)) == REFUSED
    assert "is empty" in capsys.readouterr().err
