"""Sampling of the keys of queries."""

from __future__ import annotations

import random

from queryable_state.server.state_server.key_sampler import (
    SAMPLES_PER_S,
    SLOT_S,
    SLOTS,
    FrequentKeys,
    KeySampler,
    RecentKeys,
)


class _Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def _whole(recent: RecentKeys) -> FrequentKeys:
    whole = FrequentKeys()
    recent.merge_into(whole)
    return whole


def _asked(keys_per_query: int) -> FrequentKeys:
    """Ten seconds at 10,000 keys/s over 100k keys; every fifth query is for one of them."""
    clock, chance = _Clock(), random.Random(7)
    sampler = KeySampler(clock, chance.random)
    for _ in range(100_000 // keys_per_query):
        clock.now_s += keys_per_query / 10_000
        sampler.count(
            [
                b"hot" if chance.random() < 0.2 else b"%d" % chance.randrange(100_000)
                for _ in range(keys_per_query)
            ]
        )
    return _whole(sampler.recent)


def test_one_hot_key_among_100k_is_named_with_its_share() -> None:
    for keys_per_query in (1, 100):
        found = _asked(keys_per_query)
        [(key, count), *_] = found.top(3).items()
        assert key == b"hot"
        assert abs(count - 0.2 * found.total) <= found.error(count)
        assert abs(found.total - 100_000) < 10_000
        assert found.error(count) < 0.05 * found.total


def test_few_keys_are_all_counted() -> None:
    clock = _Clock()
    sampler = KeySampler(clock)
    for _ in range(1000):
        clock.now_s += 2 / SAMPLES_PER_S
        sampler.count([b"a"])
    found = _whole(sampler.recent)
    assert (found.total, found.sampled_every, found.error(1000)) == (1000, 1, 0)


def test_after_a_burst_few_keys_are_all_counted_again() -> None:
    clock = _Clock()
    sampler = KeySampler(clock)
    for _ in range(20_000):
        clock.now_s += 1e-5
        sampler.count([b"burst"])
    assert _whole(sampler.recent).sampled_every > 1
    clock.now_s += SLOT_S * SLOTS
    sampler.settle()
    for _ in range(100):
        clock.now_s += 0.1
        sampler.count([b"a"])
    found = _whole(sampler.recent)
    assert found.counts == {b"a": 100}


def test_an_order_that_repeats_is_sampled_evenly() -> None:
    clock, chance = _Clock(), random.Random(3)
    sampler = KeySampler(clock, chance.random)
    for number in range(40_000):
        clock.now_s += 1e-4
        sampler.count([b"%d" % (number % 8)])
    found = _whole(sampler.recent)
    assert len(found.counts) == 8
    for count in found.counts.values():
        assert abs(count - found.total / 8) <= 2 * found.error(count)


def test_a_sampler_that_is_off_counts_nothing() -> None:
    sampler = KeySampler(is_on=False)
    sampler.count([b"a"] * 1000)
    sampler.settle()
    assert _whole(sampler.recent).total == 0


def test_keys_of_more_than_a_minute_ago_are_forgotten() -> None:
    clock = _Clock()
    recent = RecentKeys(clock)
    for _ in range(20):
        recent.current().add(b"old", 1)
        clock.now_s += SLOT_S
    assert _whole(recent).total == SLOTS - 1
    assert 50_000 <= recent.window_ms <= 60_000
    clock.now_s += SLOT_S * SLOTS
    assert _whole(recent).total == 0
