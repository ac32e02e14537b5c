"""`python -m benchmarks.page`: how long the page takes to show 100 jobs in Chromium.

A process has a coordinator and a state server with the jobs, a second one is the stand-alone proxy
that serves REST and the page. A load begins with the request of the page and ends when the rows of
all jobs are on the screen; in a new browser context nothing is cached, a reload may use the cache.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import time
from typing import TYPE_CHECKING

from benchmarks.arguments import add_common_arguments, write_run
from benchmarks.figures import Spread, table
from benchmarks.machine import Machine, NoiseMeter
from benchmarks.rest.servers import servers
from benchmarks.signals import exit_on_signal

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

_CHROMIUM = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
_OPTIONS = [
    *("--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
_TIMEOUT_MS = 30_000
GOAL_MS = 1_000


async def shown(page: Page, jobs: int) -> None:
    """Waits until all jobs are on the screen."""
    await page.wait_for_function(
        "jobs => document.querySelectorAll('table.jobs tbody tr').length === jobs",
        arg=jobs,
        timeout=_TIMEOUT_MS,
    )


async def load(browser: Browser, address: str, jobs: int) -> tuple[float, float]:
    """Milliseconds of a first load, and of a reload."""
    context = await browser.new_context(viewport={"width": 1280, "height": 800})
    try:
        page = await context.new_page()
        took = []
        for again in (False, True):
            begun = time.perf_counter()
            if again:
                await page.reload(wait_until="commit")
            else:
                await page.goto(address, wait_until="commit")
            await shown(page, jobs)
            took.append((time.perf_counter() - begun) * 1000)
        return took[0], took[1]
    finally:
        await context.close()


async def measure(address: str, chromium: str, jobs: int, rounds: int) -> list[tuple[float, float]]:
    """The loads; the first one, which starts processes of Chromium, does not count."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=_OPTIONS)
        try:
            await load(browser, address, jobs)
            return [await load(browser, address, jobs) for _ in range(rounds)]
        finally:
            await browser.close()


def missing() -> str:
    """What the machine lacks; empty: nothing."""
    try:
        import playwright  # noqa: F401 - only whether it is there
    except ImportError:
        return "playwright is not installed: make setup-test"
    if not any(map(shutil.which, _CHROMIUM)):
        return "Chromium is not installed: scripts/install_chromium.sh"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page", description=__doc__)
    parser.add_argument("--jobs", type=int, default=100)
    add_common_arguments(parser, quick="three loads", rounds="pairs of loads (default: 3)")
    parser.set_defaults(rounds=10)
    options = parser.parse_args()
    if options.quick:
        options.rounds = 3
    exit_on_signal()
    if lack := missing():
        print(f"not measured: {lack}")
        return 0
    chromium = next(filter(None, map(shutil.which, _CHROMIUM)))
    machine, meter = Machine.here(), NoiseMeter()
    with servers(jobs=options.jobs) as found:
        samples = asyncio.run(measure(found.web_address, chromium, options.jobs, options.rounds))
    first, again = (Spread.of([each[n] for each in samples]) for n in range(2))
    rows = [
        [name, f"{each.median:.0f}", f"{each.lowest:.0f}-{each.highest:.0f}"]
        for name, each in (("first load", first), ("reload", again))
    ]
    print(table([f"{options.jobs} jobs", f"ms (goal {GOAL_MS})", "range"], rows))
    print("", *machine.lines(), meter.line(), sep="\n")
    write_run(options, machine, meter, {"first_ms": first.median, "reload_ms": again.median})
    return 0


if __name__ == "__main__":
    sys.exit(main())
