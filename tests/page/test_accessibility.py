"""Accessibility of the views: axe's rules in both colour schemes, phone width, keyboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import expect

if TYPE_CHECKING:
    from playwright.async_api import Page
    from tests.page.recorded_server import RecordedServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.asyncio(loop_scope="module"),
]

STATE = "#/jobs/temperature/states/lastTemperature"
VIEWS = {
    "#/": "table.jobs tbody tr",
    "#/servers": "table tbody tr",
    "#/jobs/temperature": ".strip .run",
    STATE: "table.scan tbody tr",
    f"{STATE}/key?key=sensor_7": ".value",
    f"{STATE}/explain?key=sensor_7": ".timeline",
    f"{STATE}/compare?a=sensor_7&b=sensor_9": "table.compare tbody tr",
    f"{STATE}/key?key=nope": "[role=alert]",
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_no_view_breaks_a_rule_of_axe(
    page: Page, server: RecordedServer, scheme: str
) -> None:
    await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
    broken = []
    for view, drawn in VIEWS.items():
        await page.goto(server.address + view)
        await expect(page.locator(drawn).first).to_be_visible()
        found = await Axe().run(page)
        broken += [
            f"{view}: {rule['id']}: {node['html'][:160]} {node['failureSummary']}"
            for rule in found.response["violations"]
            for node in rule["nodes"]
        ]
    assert not broken, "\n".join(broken)


async def test_every_view_fits_a_phone(page: Page, server: RecordedServer) -> None:
    await page.set_viewport_size({"width": 375, "height": 800})
    wide = []
    for view, drawn in VIEWS.items():
        await page.goto(server.address + view)
        await expect(page.locator(drawn).first).to_be_visible()
        width = await page.evaluate("document.documentElement.scrollWidth")
        if width > 375:
            wide.append((view, width))
    assert not wide


async def test_focus_moves_to_the_title_of_a_new_view(page: Page, server: RecordedServer) -> None:
    await page.goto(server.address)
    await page.get_by_role("link", name="temperature").click()
    heading = page.get_by_role("heading", level=1, name="temperature")
    await expect(heading).to_be_focused()


async def test_the_first_tab_skips_to_the_content(page: Page, server: RecordedServer) -> None:
    await page.goto(server.address)
    await expect(page.locator("table.jobs")).to_be_visible()
    await page.evaluate("document.activeElement.blur()")
    await page.keyboard.press("Tab")
    await expect(page.get_by_text("Skip to content")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.locator("main")).to_be_focused()
