"""TLS on the command line: of a proxy, and of the commands that query it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.query.proxy.commands import started_proxy
from tests.security.test_tls_ports import running

from queryable_state.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
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
