"""What no server could be asked is refused by the client, at once and with what to do."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.client.asking import client_of

from queryable_state.client import Consistency, InvalidRequestError, QueryableStateClient


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


async def test_a_namespace_is_bytes(client: QueryableStateClient) -> None:
    with pytest.raises(InvalidRequestError, match="namespace"):
        await client.get_kv_state("sensors", "last", "sensor_1", namespace="window")  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "fields", [{"min_version": -1}, {"min_version": 1 << 70}, {"max_staleness_ms": 1.5}]
)
def test_a_consistency_has_numbers_that_can_be_sent(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError, match="at_least"):
        Consistency(**fields)
