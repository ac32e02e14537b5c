"""The web port with TLS."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import aiohttp
import pytest
from tests.security.authority import Authority

from queryable_state.server.testing.cluster import InProcessCluster, declare

if TYPE_CHECKING:
    from pathlib import Path


async def test_the_port_has_the_certificate_of_the_other_ports(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certificates")
    async with InProcessCluster(tmp_path / "cluster", tls=authority.settings()) as cluster:
        job = cluster.job("sensors", declare("last", "string", "double"))
        await job.run(0, {"last": {"sensor_7": 7.0}})
        proxy = await cluster.add_proxy(web="on")
        assert proxy.web_address.startswith("https://")
        path = f"{proxy.web_address}/api/v1/jobs/sensors/states/last/value?key=sensor_7"
        async with aiohttp.ClientSession() as http:
            trusting = ssl.create_default_context(cafile=authority.client().ca)
            async with http.get(path, ssl=trusting) as answer:
                assert (await answer.json())["value"] == 7.0
            with pytest.raises(aiohttp.ClientSSLError):
                await http.get(path)
            with pytest.raises(aiohttp.ClientError):
                await http.get(path.replace("https://", "http://"))
