"""Keys in REST requests and answers that JSON, or a reader of JSON, could lose."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from queryable_state.client import TimeWindow, Types
from queryable_state.server.testing.changes import Windows
from queryable_state.server.testing.cluster import InProcessCluster, declare, windowed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

STATES = "/api/v1/jobs/odd/states"
LONG = "123456789012345678.9123456789"
NEAR = "123456789012345680.0000000000"


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of the web port of a job with keys of several types."""
    pair = Types.TUPLE([Types.DOUBLE(), Types.INT()])
    async with InProcessCluster(tmp_path) as cluster:
        job = cluster.job(
            "odd",
            declare("doubles", "double", "string"),
            declare("decimals", "decimal(38,10)", "string"),
            declare("pairs", pair, "string"),
            declare("texts", "string", "string"),
            windowed(declare("sums", "string", "bigint")),
        )
        special = {math.nan: "nan", math.inf: "inf", -math.inf: "-inf", 1.5: "1.5"}
        early, late = TimeWindow(-10_000, 0), TimeWindow(0, 10_000)
        await job.run(
            0,
            {
                "doubles": special,
                "decimals": {Decimal(LONG): "exact", Decimal(NEAR): "rounded"},
                "pairs": {(math.nan, 1): "nan"},
                "sums": {"a": Windows({early: 1, late: 2})},
            },
        )
        proxy = await cluster.add_proxy(web="on")
        async with aiohttp.ClientSession(
            proxy.web_address, timeout=aiohttp.ClientTimeout(total=20)
        ) as session:
            yield session


def strictly(text: str) -> Any:
    """JSON as browsers read it: without NaN and infinities."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


async def get(http: aiohttp.ClientSession, path: str, **query: str) -> tuple[int, Any]:
    async with http.get(f"{STATES}/{path}", params=query) as answer:
        return answer.status, strictly(await answer.text())


async def post(http: aiohttp.ClientSession, path: str, body: str) -> tuple[int, Any]:
    headers = {"Content-Type": "application/json"}
    async with http.post(f"{STATES}/{path}", data=body, headers=headers) as answer:
        return answer.status, strictly(await answer.text())


@pytest.mark.parametrize(("key", "value"), [("NaN", "nan"), ("Infinity", "inf"), ("1.5", "1.5")])
async def test_a_key_that_json_has_not_is_answered_in_json(
    http: aiohttp.ClientSession, key: str, value: str
) -> None:
    for word in (key, f'"{key}"'):
        status, found = await get(http, "doubles/value", key=word)
        assert (status, found["value"]) == (200, value)
        assert str(found["key"]) == key


async def test_a_constant_within_json_is_refused_with_what_to_write(
    http: aiohttp.ClientSession,
) -> None:
    status, found = await get(http, "pairs/value", key="[NaN, 1]")
    assert (status, found["error"]["reason"]) == (400, "INVALID_REQUEST")
    status, found = await get(http, "pairs/value", key='["NaN", 1]')
    assert (status, found["value"]) == (200, "nan")
    status, found = await post(http, "doubles/values", '{"keys": [NaN]}')
    assert status == 400
    assert 'write "NaN"' in found["error"]["message"]
    status, found = await post(http, "doubles/values", '{"keys": ["NaN"]}')
    assert (status, found["values"][0]["value"]) == (200, "nan")


async def test_decimal_keys_of_a_body_keep_every_digit(http: aiohttp.ClientSession) -> None:
    status, found = await post(http, "decimals/values", f'{{"keys": [{LONG}, "{LONG}", {NEAR}]}}')
    assert status == 200
    assert [each["value"] for each in found["values"]] == ["exact", "exact", "rounded"]


async def test_half_a_surrogate_pair_is_refused(http: aiohttp.ClientSession) -> None:
    status, found = await post(http, "texts/values", r'{"keys": ["\ud800"]}')
    assert (status, found["error"]["reason"]) == (400, "INVALID_REQUEST")
    assert "surrogate" in found["error"]["message"]


async def test_windows_before_1970_are_in_a_range(http: aiohttp.ClientSession) -> None:
    status, found = await get(http, "sums/windows", key="a", from_ms="-20000", to_ms="-1")
    assert status == 200
    assert [each["window"]["start_ms"] for each in found["windows"]] == [-10_000]
