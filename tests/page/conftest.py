"""Chromium, and a server of recorded answers that it shows."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from playwright.async_api import async_playwright, expect
from tests.page.recorded_server import RecordedServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from playwright.async_api import Browser, Page

_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
# Of a loaded machine; what a test waits for is there much sooner.
_PATIENCE_MS = 60_000
expect.set_options(timeout=_PATIENCE_MS)


def chromium() -> str | None:
    """Path of Debian's Chromium, or of another one; None: none is installed."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    """Debian's Chromium without a window."""
    path = chromium()
    if path is None:
        pytest.skip("Chromium is not installed: scripts/install_chromium.sh")
    async with async_playwright() as playwright:
        # Containers lack what Chromium's sandbox needs; the tests open only this server.
        options = ["--no-sandbox", "--disable-dev-shm-usage"]
        launched = await playwright.chromium.launch(executable_path=path, args=options)
        yield launched
        await launched.close()


@pytest_asyncio.fixture(loop_scope="module")
async def server() -> AsyncIterator[RecordedServer]:
    """A started server of recorded answers."""
    recorded = RecordedServer()
    await recorded.start()
    yield recorded
    await recorded.stop()


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser) -> AsyncIterator[Page]:
    """A tab without history; the test fails if the page raises an error."""
    context = await browser.new_context(viewport={"width": 1280, "height": 800}, locale="en-GB")
    context.set_default_timeout(_PATIENCE_MS)
    tab = await context.new_page()
    errors: list[str] = []
    tab.on("pageerror", lambda error: errors.append(str(error)))
    yield tab
    await context.close()
    assert not errors
