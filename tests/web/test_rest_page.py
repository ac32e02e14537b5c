"""The commands of docs/rest.md, run as printed against a proxy."""

from __future__ import annotations

import asyncio
import json
import shutil
from typing import TYPE_CHECKING

import pytest
from tests.docs.pages import ROOT, blocks, commands

if TYPE_CHECKING:
    from queryable_state.server.query.proxy.proxy_server import ProxyServer


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
async def test_the_commands_of_the_page_answer(proxy: ProxyServer) -> None:
    run = [
        command
        for block in blocks(ROOT / "docs" / "rest.md")
        if block.language == "console"
        for command in commands(block)
    ]
    assert run
    for command in run:
        here = command.replace("http://localhost:8081", proxy.web_address)
        here = here.replace("/jobs/temperature", "/jobs/sensors")
        assert here.startswith("curl -s ")
        curl = await asyncio.create_subprocess_shell(
            here.replace("curl -s ", "curl -s --fail ", 1), stdout=asyncio.subprocess.PIPE
        )
        output, _ = await curl.communicate()
        assert curl.returncode == 0, command
        json.loads(output)
