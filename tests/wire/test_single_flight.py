"""Single-flight: concurrent calls with one key share one execution."""

from __future__ import annotations

import asyncio

import pytest

from queryable_state.wire.calls.single_flight import SingleFlight


class _Counted:
    def __init__(self) -> None:
        self.calls = 0
        self.release = asyncio.Event()

    async def __call__(self) -> int:
        self.calls += 1
        number = self.calls
        await self.release.wait()
        if number == 2:
            raise ZeroDivisionError
        return number


async def test_callers_of_one_key_share_a_call_and_its_result_is_not_kept() -> None:
    flights: SingleFlight[str, int] = SingleFlight()
    call = _Counted()
    callers = [asyncio.create_task(flights.run("a", call)) for _ in range(3)]
    await asyncio.sleep(0)
    assert set(flights.running) == {"a"}
    call.release.set()
    assert await asyncio.gather(*callers) == [1, 1, 1]
    assert not flights.running
    with pytest.raises(ZeroDivisionError):
        await flights.run("a", call)
    assert await flights.run("a", call) == 3


async def test_a_cancelled_caller_leaves_the_call_to_the_others() -> None:
    flights: SingleFlight[str, int] = SingleFlight()
    call = _Counted()
    first, second = (asyncio.create_task(flights.run("a", call)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    call.release.set()
    assert await second == 1
    assert first.cancelled()


async def test_closing_cancels_what_runs() -> None:
    flights: SingleFlight[str, int] = SingleFlight()
    caller = asyncio.create_task(flights.run("a", _Counted()))
    await asyncio.sleep(0)
    await flights.aclose()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert not flights.running
