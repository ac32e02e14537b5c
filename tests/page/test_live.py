"""What the page shows while state changes, owners move and connections end."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect
from tests.page import recorded_job

if TYPE_CHECKING:
    from playwright.async_api import Page
    from tests.page.recorded_server import RecordedServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.asyncio(loop_scope="module"),
]

JOB = "#/jobs/temperature"
KEY = f"{JOB}/states/lastTemperature/key?key=sensor_9"


async def test_a_commit_changes_the_value_without_a_reload(
    page: Page, server: RecordedServer
) -> None:
    await page.goto(server.address + KEY)
    await expect(page.locator(".value")).to_have_text("19.74")
    await expect(page.locator(".origin")).to_contain_text("live")
    for _ in range(3):
        await server.commit()
    await expect(page.locator(".origin")).to_contain_text("batch 1,844")
    await expect(page.locator(".value")).to_have_text("19.64")
    await expect(page.locator(".changes")).to_contain_text("19.64")
    await expect(page.locator(".chart canvas")).to_be_visible()


async def test_a_paused_value_stays(page: Page, server: RecordedServer) -> None:
    await page.goto(server.address + KEY)
    await expect(page.locator(".origin")).to_contain_text("live")
    await page.get_by_role("button", name="Live").click()
    await expect(page.locator(".origin")).to_contain_text("paused")
    await server.commit()
    await page.get_by_role("button", name="Paused").click()
    await expect(page.locator(".origin")).to_contain_text("batch 1,842")


async def test_a_failover_is_seen_and_its_end(page: Page, server: RecordedServer) -> None:
    await page.goto(server.address + JOB)
    await expect(page.locator(".strip .run")).to_have_count(3)
    server.lost = recorded_job.SERVERS[1]
    await expect(page.locator(".strip .run.none")).to_have_count(1)
    await expect(page.locator(".findings .notice").first).to_contain_text("43 key groups have no")
    await expect(page.get_by_text("43 without owner")).to_be_visible()
    await expect(page.get_by_role("row", name=re.compile(r"server-2-p9d7.*lost"))).to_be_visible()
    server.lost = None
    await expect(page.locator(".strip .run.none")).to_have_count(0)
    await expect(page.locator(".findings")).not_to_contain_text("43 key groups")


async def test_a_key_without_owner_says_so_and_comes_back(
    page: Page, server: RecordedServer
) -> None:
    server.lost = recorded_job.SERVERS[1]
    await page.goto(server.address + KEY)
    alert = page.get_by_role("alert")
    await expect(alert).to_contain_text("has no owner now")
    await expect(alert).to_contain_text("Next: Wait")
    server.lost = None
    await expect(page.locator(".value")).to_have_text("19.74")
    await expect(alert).to_have_count(0)


async def test_a_lost_connection_is_said_and_the_watch_resumes_where_it_was(
    page: Page, server: RecordedServer
) -> None:
    await page.goto(server.address + KEY)
    await expect(page.locator(".origin")).to_contain_text("live")
    await server.stop()
    await expect(page.get_by_text("Connection lost at")).to_be_visible()
    await expect(page.locator(".value")).to_have_text("19.74")
    server.batch += 2
    await server.start()
    await expect(page.get_by_text("Connection lost at")).to_have_count(0)
    await expect(page.locator(".origin")).to_contain_text("batch 1,843")
    await expect(page.locator(".changes")).to_contain_text("19.74 →")


async def test_a_missing_key_says_what_to_do(page: Page, server: RecordedServer) -> None:
    await page.goto(server.address + f"{JOB}/states/lastTemperature/key?key=nope")
    alert = page.get_by_role("alert")
    await expect(alert).to_contain_text("no value under key 'nope'")
    await expect(alert).to_contain_text("Next: Check the spelling")


async def test_an_unknown_state_names_those_that_exist(page: Page, server: RecordedServer) -> None:
    await page.goto(server.address + f"{JOB}/states/nope")
    await expect(page.get_by_role("alert")).to_contain_text("There are: lastTemperature")


async def test_an_address_that_names_no_view_leads_back(page: Page, server: RecordedServer) -> None:
    await page.goto(server.address + "#/nowhere/at/all")
    await expect(page.get_by_role("heading", level=1)).to_have_text("No such view")
    await page.get_by_role("link", name="All jobs").click()
    await expect(page.locator("table.jobs")).to_be_visible()


async def test_a_refusal_without_token_asks_for_one_and_keeps_it_in_the_tab(
    page: Page, server: RecordedServer
) -> None:
    server.token = "s3cret"
    await page.goto(server.address)
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("a token is needed")
    await dialog.get_by_label("Token").fill("wrong")
    await page.keyboard.press("Enter")
    await expect(dialog.get_by_label("Token")).to_be_visible()
    await dialog.get_by_label("Token").fill("s3cret")
    await page.keyboard.press("Enter")
    await expect(page.locator("table.jobs")).to_be_visible()
    await page.reload()
    await expect(page.locator("table.jobs")).to_be_visible()
    assert "s3cret" not in page.url
    assert not any("s3cret" in path for path in server.asked)
    await page.get_by_role("button", name="Forget token").click()
    await expect(dialog).to_be_visible()
