"""The page over the web port of a proxy and the servers of a job, all in the test's process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from queryable_state.server.security.access.access_settings import AccessSettings
from queryable_state.server.security.access.tokens import digest_of
from queryable_state.server.testing.cluster import InProcessCluster, declare

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.async_api import Page

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.asyncio(loop_scope="module"),
]

KEY = "#/jobs/sensors/states/last/key?key=sensor_3"
RULES = """
[tokens]
reader = "{digest}"

[[grants]]
callers = ["reader"]
jobs = ["*"]
states = ["*"]
kinds = ["list", "read", "scan"]
"""


def values(add: float) -> dict[str, dict[str, float]]:
    """A batch that writes every sensor."""
    return {"last": {f"sensor_{number}": number + add for number in range(8)}}


async def test_a_look_up_follows_the_commits_and_a_failover(page: Page, tmp_path: Path) -> None:
    async with InProcessCluster(tmp_path, servers=2) as cluster:
        job = cluster.job("sensors", declare("last", "string", "double"), durable=True)
        await job.run(0, values(0.25))
        await job.checkpoint()
        proxy = await cluster.add_proxy(web="on")
        await page.goto(proxy.web_address)
        await page.get_by_role("link", name="sensors").click()
        await page.get_by_role("link", name="last", exact=True).last.click()
        await expect(page.locator("table.scan tbody tr")).to_have_count(8)
        await page.keyboard.press("/")
        await page.keyboard.type("sensor_3")
        await page.keyboard.press("Enter")
        await expect(page.locator(".value")).to_have_text("3.25")
        await expect(page.locator(".origin")).to_contain_text("live")
        await job.run(1, values(0.5))
        await expect(page.locator(".value")).to_have_text("3.5")
        await expect(page.locator(".changes")).to_contain_text("3.25 → 3.5")
        await cluster.kill_server(cluster.servers[0])
        await cluster.kill_server(cluster.servers[0])
        await expect(page.get_by_role("alert")).to_contain_text("Next: Wait")
        await cluster.add_server()
        await job.run(2, values(0.75))
        await expect(page.locator(".value")).to_have_text("3.75")
        await expect(page.get_by_role("alert")).to_have_count(0)
        await expect(page.locator(".changes")).to_contain_text("3.5 → 3.75")
        await page.get_by_role("link", name="Explain").click()
        await expect(page.locator(".timeline li")).not_to_have_count(0)
        await expect(page.locator(".facts")).to_contain_text("key group")


async def test_a_job_and_its_servers_are_described(page: Page, tmp_path: Path) -> None:
    async with InProcessCluster(tmp_path, servers=2) as cluster:
        job = cluster.job("sensors", declare("last", "string", "double"))
        await job.run(0, values(0.25))
        proxy = await cluster.add_proxy(web="on")
        await page.goto(f"{proxy.web_address}#/jobs/sensors")
        await expect(page.locator(".graph li.operator")).to_have_count(1)
        await expect(page.locator(".strip .run").first).to_be_visible()
        servers = page.get_by_role("group", name="Table of state servers").locator("tbody tr")
        await expect(servers).to_have_count(2)
        await expect(servers.first).to_contain_text("held")


async def test_a_caller_without_token_is_asked_for_one(page: Page, tmp_path: Path) -> None:
    rules = tmp_path / "access.toml"
    rules.write_text(RULES.format(digest=digest_of("token-of-reader")))
    rules.chmod(0o600)
    access = AccessSettings(access_file=str(rules))
    async with InProcessCluster(tmp_path, access=access) as cluster:
        job = cluster.job("sensors", declare("last", "string", "double"))
        await job.run(0, values(0.25))
        proxy = await cluster.add_proxy(web="on")
        await page.goto(f"{proxy.web_address}{KEY}")
        await page.get_by_role("dialog").get_by_label("Token").fill("token-of-reader")
        await page.keyboard.press("Enter")
        await expect(page.locator(".value")).to_have_text("3.25")


async def test_a_refusal_says_what_to_do(page: Page, tmp_path: Path) -> None:
    async with InProcessCluster(tmp_path) as cluster:
        job = cluster.job("sensors", declare("last", "string", "double"))
        await job.run(0, values(0.25))
        proxy = await cluster.add_proxy(web="on")
        await page.goto(f"{proxy.web_address}#/jobs/sensors/states/last/key?key=nope")
        await expect(page.get_by_role("alert")).to_contain_text("Next: Check the spelling")
