"""What a person with grpcurl sees of a server that asks for tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.grpcurl.conftest import SERVICE
from tests.security.access.sites import start_job, token, write_rules

from queryable_state.server.testing.cluster import InProcessCluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.grpcurl.conftest import Grpcurl, Shown

pytestmark = pytest.mark.grpcurl

NAMED = '"job": "sensors", "state_name": "last"'


@pytest.fixture
async def proxy(tmp_path: Path) -> AsyncIterator[str]:
    """HOST:PORT of a proxy of a secured cluster."""
    async with InProcessCluster(tmp_path, access=write_rules(tmp_path)) as cluster:
        await start_job(cluster)
        yield (await cluster.add_proxy()).address


async def ask(
    grpcurl: Grpcurl, proxy: str, caller: str, method: str, request: str = f"{{{NAMED}}}"
) -> Shown:
    header = ("-H", f"authorization: Bearer {token(caller)}") if caller else ()
    return await grpcurl(*header, "-d", request, proxy, f"{SERVICE}/{method}")


async def test_a_header_is_a_token(grpcurl: Grpcurl, proxy: str) -> None:
    request = f'{{{NAMED}, "key_json": "\\"sensor_7\\""}}'
    read = await ask(grpcurl, proxy, "reader", "GetKvState", request)
    assert "7.0" in read.output
    scanned = await ask(grpcurl, proxy, "scanner", "ScanKvState", f'{{{NAMED}, "json": true}}')
    assert "sensor_7" in scanned.output
    listed = await ask(grpcurl, proxy, "lister", "ListStates", "{}")
    assert len(listed.json["states"]) == 2


async def test_a_refusal_has_its_code_and_its_remedy(grpcurl: Grpcurl, proxy: str) -> None:
    nobody = await ask(grpcurl, proxy, "", "ScanKvState")
    assert nobody.exit_code != 0
    # Without reflection grpcurl cannot even find the method.
    assert "Unauthenticated" in nobody.complaint
    assert "authorization: Bearer" in nobody.complaint
    denied = await ask(grpcurl, proxy, "reader", "ScanKvState")
    assert "Code: PermissionDenied" in denied.complaint
    assert 'kinds = ["scan"]' in denied.complaint


async def test_health_needs_no_token(grpcurl: Grpcurl, proxy: str) -> None:
    proto = "grpc.health.v1.Health/Check"
    # Reflection needs one, so the schema is asked for with it.
    answered = await grpcurl(
        "-reflect-header", f"authorization: Bearer {token('nobody')}", proxy, proto
    )
    assert answered.json == {"status": "SERVING"}
