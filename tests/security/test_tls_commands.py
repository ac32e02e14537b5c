"""TLS on the command line: of a proxy, and of the commands that query it."""

from __future__ import annotations

import asyncio
import re
import sys
from typing import TYPE_CHECKING

import pytest
from tests.docs.pages import ROOT
from tests.query.proxy.commands import started_proxy
from tests.security.test_tls_ports import running

from queryable_state.cli import main
from queryable_state.server.security.tls_settings import TlsSettings

if TYPE_CHECKING:
    from pathlib import Path

    from tests.security.authority import Authority


async def test_a_proxy_and_the_commands_speak_mutual_tls(
    tmp_path: Path, authority: Authority, capsys: pytest.CaptureFixture[str]
) -> None:
    tls = authority.settings(mutual=True)
    flags = [
        f"--tls-certificate={tls.tls_certificate}",
        f"--tls-key={tls.tls_key}",
        f"--tls-ca={tls.tls_ca}",
    ]
    async with (
        running(tmp_path, tls) as cluster,
        started_proxy(cluster, *flags, "--tls-client-certificates=required") as proxy,
    ):
        get = ["get", "last", "sensor_7", "--server", proxy.address]
        assert await asyncio.to_thread(main, [*get, *flags]) == 0
        assert "7.0" in capsys.readouterr().out
        assert await asyncio.to_thread(main, get) != 0
        assert "--tls" in capsys.readouterr().err


async def test_a_command_that_fails_with_tls_writes_its_error_and_nothing_else(
    tmp_path: Path, authority: Authority
) -> None:
    """No lines of gRPC; in a process of its own, which imports gRPC after the command starts."""
    async with running(tmp_path, TlsSettings()) as cluster:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            "import sys; from queryable_state.cli import main; sys.exit(main())",
            "get",
            "last",
            "sensor_7",
            f"--server={cluster.servers[0].addresses.proxy}",
            f"--tls-ca={authority.settings().tls_ca}",
            stderr=asyncio.subprocess.PIPE,
        )
        _, errors = await process.communicate()
    (line,) = errors.decode().splitlines()
    assert "does not speak TLS" in line


@pytest.mark.parametrize("command", ["proxy", "serve", "savepoint", "health", "get"])
def test_each_command_has_the_flags_that_the_page_names(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "tls.md").read_text()
    serving = _named(page, r"`proxy` and `serve` have the same settings as flags: (.*?)\.\n")
    calling = _named(page, r"the query commands only call, and have (.*?);")
    with pytest.raises(SystemExit):
        main([command, "--help"])
    flags = set(re.findall(r"--tls[a-z-]*", capsys.readouterr().out))
    assert flags - {"--tls"} == (serving if command in ("proxy", "serve") else calling - {"--tls"})


def _named(page: str, sentence: str) -> set[str]:
    found = re.search(sentence, page, re.DOTALL)
    assert found is not None
    return set(re.findall(r"`(--tls[a-z-]*)`", found[1]))
