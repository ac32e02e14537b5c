"""Keys and values that a page could show as something else, over the web port of a job."""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from queryable_state.server.testing.cluster import InProcessCluster, declare
from queryable_state.v1 import registration_pb2
from queryable_state.v1.registration_pb2 import SPARK_HASH
from queryable_state.wire.schema.type_model import Kind, TypeInfo

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.async_api import Page

    from queryable_state.server.testing.cluster import InProcessJob

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.asyncio(loop_scope="module"),
]

# As they stand in the list of keys.
UNSEEN: dict[str | None, str] = {
    None: "null",
    "": '""',
    " ": '" "',
    "\n": r'"\n"',
    "null": '"null"',
    "\u202edlrow": r'"\u202edlrow"',
    '"quoted"': '"quoted"',
}


async def test_every_key_of_a_scan_is_seen_and_leads_to_its_value(
    page: Page, tmp_path: Path
) -> None:
    async with InProcessCluster(tmp_path) as cluster:
        texts = declare("texts", TypeInfo(Kind.STRING, nullable=True), "string")
        texts.partitioner = SPARK_HASH
        job = cluster.job("odd", texts)
        await job.run(0, {"texts": {key: f"of {key}" for key in UNSEEN}})
        proxy = await cluster.add_proxy(web="on")
        for key, shown in UNSEEN.items():
            await page.goto(f"{proxy.web_address}#/jobs/odd/states/texts")
            link = page.locator("table.scan tbody th a").get_by_text(shown, exact=True)
            await link.click()
            await expect(page.locator(".value .v-text")).to_have_text(f"of {key}")
            await expect(page.locator("h1")).to_have_text(shown)


async def test_floats_that_json_lacks_are_looked_up(page: Page, tmp_path: Path) -> None:
    async with InProcessCluster(tmp_path) as cluster:
        job = cluster.job("odd", declare("doubles", "double", "double"))
        await job.run(0, {"doubles": {math.nan: math.inf, math.inf: math.nan}})
        proxy = await cluster.add_proxy(web="on")
        for key, value in (("NaN", "Infinity"), ("Infinity", "NaN")):
            await page.goto(f"{proxy.web_address}#/jobs/odd/states/doubles")
            await page.locator("table.scan tbody th a").get_by_text(key, exact=True).click()
            await expect(page.locator(".value")).to_have_text(value)


async def test_an_entry_with_the_name_of_a_pickle_is_an_entry(page: Page, tmp_path: Path) -> None:
    async with InProcessCluster(tmp_path) as cluster:
        entries = declare(
            "entries", "string", "string", kind=registration_pb2.MAP, map_key_type="string"
        )
        job = cluster.job("odd", entries)
        await job.run(0, {"entries": {"k": {"$pickled": "a"}, "l": {"$pickled": "a", "": "b"}}})
        proxy = await cluster.add_proxy(web="on")
        await page.goto(f"{proxy.web_address}#/jobs/odd/states/entries")
        await expect(page.locator("table.scan tbody tr").first).to_contain_text('{"$pickled":"a"}')
        await page.goto(f"{proxy.web_address}#/jobs/odd/states/entries/key?key=l")
        await expect(page.locator(".value dt")).to_have_text(["", "$pickled"])
        await page.goto(f"{proxy.web_address}#/jobs/odd/states/entries/compare?a=k&b=l")
        await expect(page.locator(".compare tr.differs th")).to_contain_text('""')


async def test_a_long_name_does_not_widen_a_phone(page: Page, tmp_path: Path) -> None:
    name = "x" * 300
    async with InProcessCluster(tmp_path) as cluster:
        job = cluster.job(name, declare(name, "string", "string"))
        await job.run(0, {name: {"k": "v", name: name}})
        proxy = await cluster.add_proxy(web="on")
        await page.set_viewport_size({"width": 390, "height": 844})
        for view in ("", f"/states/{name}", f"/states/{name}/key?key={name}"):
            await page.goto(f"{proxy.web_address}#/jobs/{name}{view}")
            await expect(page.locator("h1")).to_be_visible()
            await expect(page.get_by_text("Loading …")).to_have_count(0)
            width = await page.locator("html").evaluate("(each) => each.scrollWidth")
            assert width <= 390, view


async def test_a_job_that_begins_anew_replaces_what_the_page_has_seen_of_the_old_one(
    page: Page, tmp_path: Path
) -> None:
    """Its batches count from 0 again, and its changes are shown at once."""

    async def changed(job: InProcessJob, batch: int, value: float) -> None:
        await job.run(batch, {"last": {"a": value}})
        await expect(page.locator(".value")).to_have_text(str(value))
        await expect(page.locator(".origin")).to_contain_text(f"batch {batch}")

    async with InProcessCluster(tmp_path) as cluster:
        last = declare("last", "string", "double")
        old = cluster.job("sensors", last)
        await old.run(0, {"last": {"a": 0.5}})
        proxy = await cluster.add_proxy(web="on")
        await page.goto(f"{proxy.web_address}#/jobs/sensors/states/last/key?key=a")
        await expect(page.locator(".origin")).to_contain_text("live")
        for batch in range(1, 4):
            await changed(old, batch, batch + 0.5)
        coordinator = cluster.coordinator
        coordinator.engine.end(old.query_id)
        await asyncio.to_thread(coordinator.coordinator.refresh)
        await asyncio.to_thread(coordinator.coordinator.drop_query, old.query_id)
        new = cluster.job("sensors", declare("last", "string", "double"))
        await changed(new, 0, 100.5)
        await expect(page.locator(".origin")).to_contain_text("live")
        await changed(new, 1, 101.5)
        await expect(page.locator(".changes")).to_contain_text("100.5 → 101.5")


async def test_a_value_that_expires_is_not_shown_any_more(page: Page, tmp_path: Path) -> None:
    """No batch removes it, so no change tells of it."""
    async with InProcessCluster(tmp_path) as cluster:
        job = cluster.job("sensors", declare("last", "string", "double", ttl_ms=10_000))
        await job.run(0, {"last": {"a": 0.5}})
        proxy = await cluster.add_proxy(web="on")
        await page.goto(f"{proxy.web_address}#/jobs/sensors/states/last/key?key=a")
        await expect(page.locator(".value")).to_have_text("0.5")
        await expect(page.get_by_role("alert")).to_contain_text("nothing is stored")
        await expect(page.locator(".value")).to_have_count(0)
        job.updated_ms = time.time_ns() // 1_000_000
        await job.run(1, {"last": {"a": 1.5}})
        await expect(page.locator(".value")).to_have_text("1.5")
        await expect(page.get_by_role("alert")).to_have_count(0)


async def test_a_paused_value_stays_when_its_tab_is_shown_again(page: Page, tmp_path: Path) -> None:
    async with InProcessCluster(tmp_path) as cluster:
        job = cluster.job("sensors", declare("last", "string", "double"))
        await job.run(0, {"last": {"a": 0.5}})
        proxy = await cluster.add_proxy(web="on")
        await page.goto(f"{proxy.web_address}#/jobs/sensors/states/last/key?key=a")
        await expect(page.locator(".value")).to_have_text("0.5")
        async with page.expect_response(lambda answer: "/value?" in answer.url):
            await page.get_by_role("button", name="Live").click()
        await expect(page.locator(".origin")).to_contain_text("paused")
        await job.run(1, {"last": {"a": 1.5}})
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        # The types of the state are read again.
        async with page.expect_response(lambda answer: answer.url.endswith("/states/last")):
            await page.locator("html").evaluate(
                "() => document.dispatchEvent(new Event('visibilitychange'))"
            )
        assert not any("/value?" in url for url in asked)
        await expect(page.locator(".value")).to_have_text("0.5")
