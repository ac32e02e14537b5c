"""The OpenAPI document: it describes what the web port does."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from queryable_state.server.web.api.openapi import document
from queryable_state.server.web.api.routes import ROUTES

if TYPE_CHECKING:
    from pathlib import Path

    import aiohttp

    from queryable_state.server.query.proxy.proxy_server import ProxyServer

CONFIG = """
[generation]
max-examples = 10
deterministic = true

# A timeout of some milliseconds ends before its answer.
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 503, 504]

[[operations]]
include-name = "POST /api/v1/jobs/{job}/savepoints"
enabled = false

[[operations]]
include-operation-id = "watch"
enabled = false
"""


async def test_the_document_names_every_path_once(http: aiohttp.ClientSession) -> None:
    async with http.get("/api/v1/openapi.json") as answer:
        assert await answer.json() == document(ROUTES)
    assert len({route.name for route in ROUTES}) == len(ROUTES)
    for route in ROUTES:
        in_path = {each.name for each in route.parameters if each.place == "path"}
        assert in_path == {part[1:-1] for part in route.path.split("/") if part.startswith("{")}


@pytest.mark.slow
async def test_schemathesis_finds_no_contradiction(proxy: ProxyServer, tmp_path: Path) -> None:
    """Generated requests, valid and invalid: statuses, types and schemas are as documented."""
    config = tmp_path / "schemathesis.toml"
    config.write_text(CONFIG)
    run = await asyncio.create_subprocess_exec(
        "schemathesis",
        f"--config-file={config}",
        "run",
        f"{proxy.web_address}/api/v1/openapi.json",
        "--phases=examples,coverage,fuzzing",
        # A window needs both of its ends, which the document cannot say.
        "--exclude-checks=positive_data_acceptance",
        "--max-failures=5",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await run.communicate()
    assert run.returncode == 0, output.decode(errors="replace")
