"""Large work takes turns, and the loop goes on between them."""

from __future__ import annotations

import asyncio
import time
from itertools import pairwise

from queryable_state.server.serving.large_request_queue import LargeRequestQueue


async def test_long_work_is_done_in_order_and_others_run_between() -> None:
    large_requests, done = LargeRequestQueue(), []

    def work(number: int) -> None:
        time.sleep(0.006)
        done.append(number)

    for number in range(5):
        large_requests.run(lambda number=number: work(number))  # type: ignore[misc]
    seen = []
    while len(done) < 5:
        await asyncio.sleep(0)
        seen.append(len(done))
    assert done == list(range(5))
    # No turn of the loop did two of them.
    assert max(after - before for before, after in pairwise(seen)) == 1


async def test_whoever_waits_for_its_turn_is_alone_in_it() -> None:
    large_requests, together, most = LargeRequestQueue(), 0, 0

    async def call() -> None:
        nonlocal together, most
        await large_requests.next()
        together += 1
        most = max(most, together)
        asyncio.get_running_loop().call_soon(ended)

    def ended() -> None:
        nonlocal together
        together -= 1

    async with asyncio.timeout(20):
        await asyncio.gather(*(call() for _ in range(10)))
    assert most == 1
