"""Open loops: arrivals drawn ahead, latencies from the intended arrival."""

from __future__ import annotations

import asyncio
import itertools
from statistics import mean, pstdev

import pytest
from benchmarks.closed_loop import WrongAnswerError
from benchmarks.open_loop import OpenLoopSample, open_loop, poisson_arrivals


def right(_item: int, _answer: object) -> bool:
    return True


async def echo(item: int) -> int:
    return item


def test_gaps_of_arrivals_are_exponential_around_the_rate() -> None:
    arrivals = poisson_arrivals(1_000.0, 20.0, seed=1)
    gaps = [later - earlier for earlier, later in itertools.pairwise(arrivals)]
    assert mean(gaps) == pytest.approx(1e6, rel=0.05)
    assert pstdev(gaps) == pytest.approx(mean(gaps), rel=0.05)
    assert arrivals == sorted(arrivals)
    assert arrivals[-1] < 20e9


def test_arrivals_are_the_same_for_the_same_seed() -> None:
    assert poisson_arrivals(500.0, 1.0, seed=2) == poisson_arrivals(500.0, 1.0, seed=2)
    assert poisson_arrivals(500.0, 1.0, seed=2) != poisson_arrivals(500.0, 1.0, seed=4)


async def test_every_arrival_is_looked_up_and_counted_after_the_warm_up() -> None:
    items: list[int] = []

    async def look_up(item: int) -> int:
        items.append(item)
        return item

    sample = await open_loop(
        look_up, right, [4, 5, 6], rate=500.0, warm_up_s=0.1, seconds=0.2, seed=5, give_up_s=60.0
    )
    arrivals = poisson_arrivals(500.0, 0.1 + 0.2, seed=5)
    assert len(items) == len(arrivals)
    assert items[:4] == [4, 5, 6, 4]
    assert sample.kept_up
    assert sample.answers == sum(arrival >= 0.1 * 1e9 for arrival in arrivals)


async def test_a_waiting_look_up_does_not_delay_the_next() -> None:
    all_sent = asyncio.Event()
    expected = len(poisson_arrivals(1_000.0, 0.1, seed=3))
    sent = 0

    async def look_up(item: int) -> int:
        nonlocal sent
        sent += 1
        if sent == expected:
            all_sent.set()
        await all_sent.wait()
        return item

    sample = await open_loop(
        look_up, right, [1], rate=1_000.0, warm_up_s=0.0, seconds=0.1, give_up_s=60.0
    )
    assert sample.kept_up
    assert sample.answers == expected


async def test_a_look_up_without_an_answer_ends_the_loop() -> None:
    async def look_up(_item: int) -> int:
        await asyncio.Event().wait()
        return 0

    sample = await open_loop(
        look_up, right, [1], rate=100.0, warm_up_s=0.0, seconds=0.1, give_up_s=0.05
    )
    assert not sample.kept_up
    assert not sample.holds(1e9)


async def test_a_wrong_answer_is_an_error() -> None:
    def never(_item: int, _answer: object) -> bool:
        return False

    with pytest.raises(WrongAnswerError, match="item 7: 7"):
        await open_loop(echo, never, [7], rate=1_000.0, warm_up_s=0.0, seconds=0.1)


async def test_a_failed_look_up_is_an_error() -> None:
    async def look_up(_item: int) -> int:
        raise ConnectionError("gone")

    with pytest.raises(WrongAnswerError, match="gone"):
        await open_loop(look_up, right, [7], rate=1_000.0, warm_up_s=0.0, seconds=0.1)


def test_a_rate_is_held_only_below_the_limit() -> None:
    sample = OpenLoopSample(rate=1.0, p50_us=1.0, p99_us=4_999.0, answers=1, kept_up=True)
    assert sample.holds(5_000.0)
    assert not sample.holds(4_999.0)
