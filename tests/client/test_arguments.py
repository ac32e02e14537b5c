"""What no server could be asked is refused by the client, at once and with what to do."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.client.asking import client_of

from queryable_state.client import (
    Consistency,
    InvalidRequestError,
    QueryableStateClient,
    TimeWindow,
)
from queryable_state.client.blocking import QueryableStateClient as BlockingClient


@pytest.mark.parametrize("timeout_s", [0, -1, math.nan, math.inf, 1e300, 5_000_000, True, "1"])
async def test_times_that_cannot_be_sent_are_refused(
    client: QueryableStateClient, timeout_s: Any
) -> None:
    with pytest.raises(InvalidRequestError, match="timeout_s"):
        await client.get_kv_state("sensors", "last", "sensor_1", timeout_s=timeout_s)
    with pytest.raises(InvalidRequestError, match="timeout_s"):
        await client.list_jobs(timeout_s=timeout_s)
    with pytest.raises(InvalidRequestError, match="timeout_s"):
        client.scan("sensors", "last", timeout_s=timeout_s)
    with pytest.raises(InvalidRequestError, match="timeout_s"):
        client_of("127.0.0.1:1", timeout_s=timeout_s)


async def test_the_longest_time_is_taken(client: QueryableStateClient) -> None:
    state = await client.get_kv_state("sensors", "last", "sensor_1", timeout_s=4_000_000)
    assert state.info.version == 1
    assert await client.scan("sensors", "last", timeout_s=4_000_000).next_page()
    assert await client.list_jobs(timeout_s=4_000_000)


async def test_a_window_is_a_time_window(client: QueryableStateClient) -> None:
    with pytest.raises(InvalidRequestError, match="window must be a TimeWindow"):
        await client.get_kv_state("sensors", "last", "sensor_1", window=(0, 10))  # type: ignore[call-overload]
    with pytest.raises(InvalidRequestError, match="64-bit"):
        await client.get_kv_state("sensors", "last", "sensor_1", window=TimeWindow(0, 1 << 64))


async def test_a_range_of_windows_is_of_times(client: QueryableStateClient) -> None:
    with pytest.raises(InvalidRequestError, match="start of the range"):
        await client.get_windows("sensors", "last", "sensor_1", "soon")  # type: ignore[arg-type]
    with pytest.raises(InvalidRequestError, match="64-bit"):
        await client.get_windows("sensors", "last", "sensor_1", end=1 << 64)
    for newest in (0, True, "all"):
        with pytest.raises(InvalidRequestError, match="newest"):
            await client.get_windows("sensors", "last", "sensor_1", newest=newest)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "fields", [{"min_version": -1}, {"min_version": 1 << 70}, {"max_staleness_ms": 1.5}]
)
def test_a_consistency_has_numbers_that_can_be_sent(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError, match="at_least"):
        Consistency(**fields)


@pytest.mark.parametrize("one_cut", [False, True])
@pytest.mark.parametrize("keys", ["abc", b"abc", bytearray(b"abc"), "", b""])
async def test_one_text_is_no_list_of_keys(
    client: QueryableStateClient, keys: Any, one_cut: bool
) -> None:
    for look_up in (client.get_kv_states, client.multi_get):
        with pytest.raises(InvalidRequestError, match="give a list of keys"):
            await look_up("sensors", "last", keys, one_cut=one_cut)
    found = await client.get_kv_states("sensors", "last", ("sensor_1",), one_cut=one_cut)
    assert [state is not None for state in found] == [True]


def test_one_text_is_no_list_of_keys_for_the_blocking_client() -> None:
    with BlockingClient("127.0.0.1", 1) as client:
        for look_up in (client.get_kv_states, client.multi_get):
            for keys in ("abc", b"abc"):
                with pytest.raises(InvalidRequestError, match="give a list of keys"):
                    look_up("sensors", "last", keys)
