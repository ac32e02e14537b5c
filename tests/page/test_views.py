"""The views of the page, in Chromium, over recorded answers."""

from __future__ import annotations

import time
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
LAST = f"{JOB}/states/lastTemperature"


async def test_the_list_of_jobs_puts_those_in_trouble_first(
    page: Page, server: RecordedServer
) -> None:
    await page.goto(server.address)
    first = page.locator("table.jobs tbody tr").first
    await expect(first).to_contain_text("temperature")
    await expect(first).to_contain_text("failing")
    await expect(first).to_contain_text("raises ValueError")
    await expect(first).to_contain_text("2,441")
    await expect(page.get_by_text("3 in trouble")).to_be_visible()
    await first.get_by_role("link").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("temperature")


async def test_a_job_shows_what_is_wrong_with_the_next_step_and_the_record(
    page: Page, server: RecordedServer
) -> None:
    await page.goto(server.address + JOB)
    finding = page.locator(".findings .notice").first
    await expect(finding).to_contain_text("Batch 1842 has failed 3 times")
    await expect(finding).to_contain_text("Next: Correct or skip the record")
    error = page.locator(".error").first
    await expect(error).to_contain_text("could not convert string to float")
    await expect(error).to_contain_text("Row(sensor='sensor_7'")
    await expect(page.locator(".graph li.operator")).to_have_count(4)
    await expect(page.locator(".graph svg > path")).to_have_count(5)
    await expect(page.locator(".charts canvas")).to_have_count(3)
    await expect(page.get_by_role("progressbar", name="Writing a savepoint")).to_be_visible()
    await expect(page.get_by_role("img", name="Key groups of")).to_be_visible()
    await error.get_by_role("link", name="sensor_7").click()
    await expect(page).to_have_url(f"{server.address}{LAST}/key?key=%22sensor_7%22")


async def test_charts_that_cannot_be_drawn_are_text_until_they_can(
    page: Page, server: RecordedServer
) -> None:
    await page.route("**/uPlot.iife.min.js", lambda route: route.abort())
    await page.goto(server.address + JOB)
    await expect(page.locator(".charts .chart-now").first).to_be_visible()
    await expect(page.locator(".charts canvas")).to_have_count(0)
    await page.unroute_all()
    await page.goto(server.address + "#/")
    await expect(page.locator("table.jobs")).to_be_visible()
    await page.goto(server.address + JOB)
    await expect(page.locator(".charts canvas")).to_have_count(3)


async def test_a_key_is_found_from_the_search_field_alone(
    page: Page, server: RecordedServer
) -> None:
    await page.goto(server.address + LAST)
    await expect(page.get_by_label("Key", exact=True)).to_have_attribute(
        "placeholder", "such as sensor_1"
    )
    await page.keyboard.press("/")
    await page.keyboard.type("sensor_9")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_have_text("sensor_9")
    await expect(page.locator(".value")).to_have_text("19.74")
    await expect(page.locator(".origin")).to_contain_text("batch 1,841")


async def test_a_scan_reads_page_after_page(page: Page, server: RecordedServer) -> None:
    await page.goto(server.address + LAST)
    rows = page.locator("table.scan tbody tr")
    await expect(rows).to_have_count(50)
    await page.get_by_role("button", name="Next page").click()
    await expect(rows).to_have_count(100)
    await page.get_by_label("begins with").fill("sensor_13")
    await page.get_by_role("button", name="Scan").click()
    await expect(rows).to_have_count(2)
    await expect(page).to_have_url(f"{server.address}{LAST}?prefix=sensor_13")


async def test_a_value_is_drawn_by_its_type(page: Page, server: RecordedServer) -> None:
    await page.goto(server.address + JOB + '/states/device/key?key=["AA",3]')
    value = page.locator(".value")
    await expect(value).to_contain_text("boiler, north")
    await expect(value).to_contain_text("2026-11-23 21:40:07.120Z")
    await expect(value).to_contain_text("-4.50")
    # A double would have rounded it.
    await expect(value).to_contain_text("9007199254740993")
    await expect(value).to_contain_text("pickle, 20 B")
    await value.get_by_role("button", name="show bytes").first.click()
    await expect(value).to_contain_text("00 01 02 03 ff")


async def test_the_windows_of_a_key_are_listed_newest_first(
    page: Page, server: RecordedServer
) -> None:
    await page.goto(server.address + JOB + "/states/hourlyMean/key?key=sensor_7")
    rows = page.get_by_role("group", name="Table of windows").locator("tbody tr")
    await expect(rows).to_have_count(7)
    await rows.first.get_by_role("link").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("00:00Z")


async def test_explain_is_a_timeline_in_which_a_retry_is_marked(
    page: Page, server: RecordedServer
) -> None:
    await page.goto(server.address + LAST + "/explain?key=sensor_7")
    steps = page.locator(".timeline li:not(.axis)")
    await expect(steps).to_have_count(6)
    await expect(steps.nth(1)).to_contain_text("retried")
    await expect(steps.nth(1)).to_contain_text("NOT_OWNER")
    await expect(page.get_by_text("2.89 ms")).to_be_visible()


async def test_two_keys_are_compared_side_by_side(page: Page, server: RecordedServer) -> None:
    await page.goto(server.address + LAST + "/compare?a=sensor_7&b=sensor_9")
    row = page.locator("table.compare tbody tr")
    await expect(row).to_contain_text("19.46")
    await expect(row).to_contain_text("19.74")
    await expect(page.get_by_text("1 of 1 differ")).to_be_visible()


async def test_a_view_without_its_path_on_the_server_is_hidden(
    page: Page, server: RecordedServer
) -> None:
    server.paths = (
        "jobs",
        "jobs/{job}/states",
        "jobs/{job}/states/{state}",
        "jobs/{job}/states/{state}/value",
        "jobs/{job}/states/{state}/scan",
    )
    await page.goto(server.address + JOB)
    await expect(page.get_by_role("heading", name="States")).to_be_visible()
    for name in ("Hot keys", "Operators", "Servers"):
        await expect(page.get_by_role("heading", name=name)).to_have_count(0)
    await page.goto(server.address + LAST + "/key?key=sensor_7")
    await expect(page.locator(".origin")).to_contain_text("read each second")
    await expect(page.get_by_role("heading", name="Timers")).to_have_count(0)
    calls = [path for path in server.asked if path.startswith("/api/")]
    assert not [path for path in calls if "hot-keys" in path or "servers" in path]


async def test_a_hundred_jobs_are_on_the_screen_within_a_second(
    page: Page, server: RecordedServer
) -> None:
    server.jobs = [recorded_job.job(f"job {n}", f"{n:032x}", "HEALTHY") for n in range(100)]
    await page.goto(server.address)
    await expect(page.locator("table.jobs tbody tr")).to_have_count(100)
    took: list[float] = []
    # The fastest of some loads: what else the machine does slows the others down.
    while len(took) < 10 and min(took, default=1.0) >= 1.0:
        begun = time.perf_counter()
        await page.reload(wait_until="commit")
        await expect(page.locator("table.jobs tbody tr")).to_have_count(100)
        took.append(time.perf_counter() - begun)
    assert min(took) < 1.0, took
