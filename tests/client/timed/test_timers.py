"""Pending timers of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.client.timed.stored import FIRST, KEYS, LAST, OWN_TIMERS, TIMERS, registered

from queryable_state.client import (
    Clock,
    InvalidRequestError,
    PendingTimer,
    PendingTimers,
    UnknownKeyOrNamespaceError,
)
from queryable_state.server.testing.changes import Windows

if TYPE_CHECKING:
    from queryable_state.client import QueryableStateClient
    from queryable_state.server.testing.cluster import InProcessJob

NAME = "operator.timers"


async def test_the_timers_of_a_key_are_in_the_order_in_which_they_fire(
    asker: QueryableStateClient,
) -> None:
    timers = await asker.get_timers("windows", NAME, "sensor_1")
    assert list(timers) == timers.get() == OWN_TIMERS
    assert (timers[0].clock, timers[0].timestamp_ms, timers[0].window) == (
        Clock.PROCESSING_TIME,
        5_000,
        None,
    )
    assert timers[2].window == FIRST
    assert (len(timers), timers.is_empty(), timers.info.version) == (3, False, 1)
    assert timers.remaining_ms is None


async def test_a_key_without_timers_is_no_error(asker: QueryableStateClient) -> None:
    timers = await asker.get_timers("windows", NAME, "nobody")
    assert (timers.get(), timers.is_empty(), timers.info.version) == ([], True, 1)
    with pytest.raises(UnknownKeyOrNamespaceError):
        await asker.get_kv_state("windows", NAME, "nobody")


async def test_the_timers_of_one_window(asker: QueryableStateClient) -> None:
    assert (await asker.get_timers("windows", NAME, "sensor_1", window=FIRST)).get() == (
        OWN_TIMERS[2:]
    )
    assert not await asker.get_timers("windows", NAME, "sensor_1", window=LAST)


async def test_timers_are_read_by_the_other_calls_too(asker: QueryableStateClient) -> None:
    found = await asker.get_kv_state("windows", NAME, "sensor_2")
    assert isinstance(found, PendingTimers)
    assert found.get() == TIMERS["sensor_2"]
    results = await asker.multi_get("windows", NAME, KEYS, one_cut=True)
    assert {key: state.get() for key, state in results.found()} == TIMERS
    assert await asker.contains("windows", NAME, "sensor_1")
    assert (await asker.size("windows", NAME, "sensor_1")).elements == 3
    with pytest.raises(InvalidRequestError, match="has no value"):
        found.value()


async def test_a_scan_has_the_timers_of_each_key(asker: QueryableStateClient) -> None:
    async with asker.scan("windows", NAME) as scan:
        assert {key: state.get() async for key, state in scan if state is not None} == TIMERS


async def test_a_timer_that_fired_is_not_pending(
    asker: QueryableStateClient, job: InProcessJob
) -> None:
    later = PendingTimer(Clock.EVENT_TIME, 120_000)
    await job.run(2, {NAME: {"sensor_1": Windows({None: None, FIRST: None})}})
    await job.run(3, {NAME: {"sensor_1": registered([later])}})
    assert (await asker.get_timers("windows", NAME, "sensor_1")).get() == [later]


async def test_timers_are_asked_of_a_state_of_timers(asker: QueryableStateClient) -> None:
    with pytest.raises(InvalidRequestError, match=r"of kind VALUE.*'\.timers'"):
        await asker.get_timers("windows", "last", "sensor_1")
    with pytest.raises(InvalidRequestError, match="get_timers"):
        await asker.get_windows("windows", NAME, "sensor_1")
