"""Draws the pictures of docs/console.md: `python -m tests.page.screenshots`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from playwright.async_api import async_playwright
from tests.page.conftest import chromium
from tests.page.recorded_server import RecordedServer

if TYPE_CHECKING:
    from playwright.async_api import Browser

_FOLDER = Path(__file__).parents[2] / "docs/images"
_JOB = "#/jobs/temperature"
_LAST = f"{_JOB}/states/lastTemperature"
_COMMITS = 24

_Shot = tuple[str, str, int, int, Literal["light", "dark"]]
# Address, what is there when the view is drawn, width, height, colour scheme.
_SHOTS: dict[str, _Shot] = {
    "console-jobs": ("#/", "table.jobs td:text('2,441')", 1200, 330, "light"),
    "console-job": (_JOB, ".strip .run", 1200, 1130, "light"),
    "console-job-dark": (_JOB, ".strip .run", 1200, 1130, "dark"),
    "console-phone": (_JOB, ".strip .run", 390, 844, "light"),
    "console-state": (_LAST, "table.scan tbody tr", 1200, 620, "light"),
    "console-key": (f"{_LAST}/key?key=sensor_7", ".origin :text('live')", 1200, 800, "light"),
    "console-value": (
        f'{_JOB}/states/device/key?key=["AA",3]',
        ".origin :text('live')",
        1200,
        640,
        "dark",
    ),
    "console-explain": (f"{_LAST}/explain?key=sensor_7", ".timeline", 1200, 640, "light"),
    "console-compare": (
        f'{_JOB}/states/device/compare?a=["AA",3]&b=["AA",4]',
        ".differs",
        1200,
        520,
        "light",
    ),
}


async def _draw(browser: Browser, server: RecordedServer, name: str, shot: _Shot) -> None:
    address, drawn, width, height, scheme = shot
    context = await browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=scheme,
        reduced_motion="reduce",
        locale="en-GB",
    )
    page = await context.new_page()
    await page.goto(server.address + address)
    await page.wait_for_selector(drawn)
    if name == "console-key":
        for _ in range(_COMMITS):
            await server.commit()
            # The chart has one point for each batch, at the time of its commit.
            await asyncio.sleep(0.4)
    await page.wait_for_timeout(1500)
    await page.screenshot(path=_FOLDER / f"{name}.png")
    await context.close()


async def _main() -> None:
    _FOLDER.mkdir(exist_ok=True)
    server = RecordedServer()
    await server.start()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox"]
        )
        for name, shot in _SHOTS.items():
            await _draw(browser, server, name, shot)
        await browser.close()
    await server.stop()


if __name__ == "__main__":
    asyncio.run(_main())
