"""State in windows: one window of a key, all of them, the newest one, and scans."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from tests.client.timed.stored import EVENTS, FIRST, KEYS, LAST, MAXIMA, MINUTES, TIMERS

from queryable_state.client import (
    InvalidRequestError,
    ListState,
    MapState,
    Reason,
    TimeWindow,
    UnknownKeyOrNamespaceError,
    WindowedKey,
)
from queryable_state.client.blocking import QueryableStateClient as BlockingClient
from queryable_state.server.testing.changes import Windows

if TYPE_CHECKING:
    from queryable_state.client import QueryableStateClient
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob

NOWHERE = TimeWindow(7, 8)


async def test_one_window_of_a_key(asker: QueryableStateClient) -> None:
    found = await asker.get_kv_state("windows", "maxima", "sensor_4", window=LAST)
    assert (found.value(), found.window) == (MAXIMA["sensor_4"][LAST], LAST)
    assert found.info.watermark_ms == 1
    assert str(LAST) in repr(found)
    with pytest.raises(UnknownKeyOrNamespaceError, match=r"in TimeWindow\(start=7, end=8\)"):
        await asker.get_kv_state("windows", "maxima", "sensor_4", window=NOWHERE)


async def test_many_keys_of_one_window(asker: QueryableStateClient) -> None:
    for one_cut in (False, True):
        results = await asker.multi_get("windows", "maxima", KEYS, window=FIRST, one_cut=one_cut)
        assert {key: state.value() for key, state in results.found()} == {
            key: values[FIRST] for key, values in MAXIMA.items() if FIRST in values
        }
        assert {state.window for _, state in results.found()} == {FIRST}
    states = await asker.get_kv_states("windows", "maxima", KEYS[:3], window=FIRST)
    assert [state and state.value() for state in states] == [0, None, None]


async def test_parts_of_a_value_in_a_window(asker: QueryableStateClient) -> None:
    events = await asker.get_kv_state("windows", "events", "sensor_1", window=FIRST)
    assert isinstance(events, ListState)
    assert events.get() == ["a", "b"]
    some = await asker.get_list_slice("windows", "events", "sensor_1", 1, window=FIRST)
    assert (some.get(), some.length) == (["b"], 2)
    entry = await asker.get_map_entry("windows", "counts", "sensor_1", "x", window=LAST)
    assert (entry.value(), entry.window) == (3, LAST)
    assert await asker.contains("windows", "counts", "sensor_1", "y", window=FIRST)
    assert not await asker.contains("windows", "counts", "sensor_1", "y", window=LAST)
    assert (await asker.size("windows", "counts", "sensor_1", window=FIRST)).elements == 2


async def test_all_windows_of_a_key(asker: QueryableStateClient) -> None:
    every = await asyncio.gather(*(asker.get_windows("windows", "maxima", key) for key in KEYS))
    for key, found in zip(KEYS, every, strict=True):
        assert {window: state.value() for window, state in found.items()} == MAXIMA[key]
        assert list(found) == sorted(MAXIMA[key])
        assert all(state.window == window for window, state in found.items())
        assert found.newest is found[LAST]
        assert found.info.version == 1
    nothing = await asker.get_windows("windows", "maxima", "nobody")
    assert (len(nothing), nothing.newest, nothing.info.version) == (0, None, 1)
    events = await asker.get_windows("windows", "events", "sensor_1")
    assert {window: state.get() for window, state in events.items()} == EVENTS["sensor_1"]
    counts = await asker.get_windows("windows", "counts", "sensor_1")
    assert isinstance(counts[FIRST], MapState)
    assert dict(counts[FIRST].items()) == {"x": 1, "y": 2}


async def test_windows_of_a_range_of_time(asker: QueryableStateClient) -> None:
    from_second = await asker.get_windows("windows", "maxima", "sensor_0", 60_000, 180_000)
    assert list(from_second) == MINUTES[1:3]
    time = datetime(1970, 1, 1, 0, 3, tzinfo=UTC)
    assert list(await asker.get_windows("windows", "maxima", "sensor_0", time)) == MINUTES[3:]
    newest = await asker.get_windows("windows", "maxima", "sensor_0", newest=2)
    assert list(newest) == MINUTES[-2:]


async def test_the_newest_window(asker: QueryableStateClient, job: InProcessJob) -> None:
    newest = await asker.get_newest_window("windows", "maxima", "sensor_1")
    assert (newest.value(), newest.window) == (MAXIMA["sensor_1"][LAST], LAST)
    with pytest.raises(UnknownKeyOrNamespaceError, match="'nobody'"):
        await asker.get_newest_window("windows", "maxima", "nobody")
    # Once it is gone, another one is the newest.
    await job.run(2, {"maxima": {"sensor_1": Windows({LAST: None})}})
    newest = await asker.get_newest_window("windows", "maxima", "sensor_1")
    assert newest.window == MINUTES[-2]
    assert LAST not in await asker.get_windows("windows", "maxima", "sensor_1")


async def test_a_scan_has_every_window_of_every_key(asker: QueryableStateClient) -> None:
    async with asker.scan("windows", "maxima") as scan:
        found = {}
        async for (key, window), state in scan:
            assert state is not None
            assert state.window == window
            found[key, window] = state.value()
    assert found == {(key, window): v for key, ws in MAXIMA.items() for window, v in ws.items()}
    assert scan.complete
    async with asker.scan("windows", "events", keys_only=True) as scan:
        keys = [key async for key, _ in scan]
    assert keys == [WindowedKey("sensor_1", FIRST), WindowedKey("sensor_1", LAST)]


async def test_a_scan_of_one_window_has_plain_keys(asker: QueryableStateClient) -> None:
    async with asker.scan("windows", "maxima", window=FIRST) as scan:
        found = {key: state.value() async for key, state in scan if state is not None}
    assert found == {key: values[FIRST] for key, values in MAXIMA.items() if FIRST in values}


async def test_pages_of_a_scan_go_on_within_a_key(asker: QueryableStateClient) -> None:
    read: list[Any] = []
    token = b""
    while True:
        async with asker.scan("windows", "maxima", limit=7, page_token=token) as scan:
            read += [key async for key, _ in scan]
        token = scan.page_token
        if not token:
            break
    assert len(read) == len(set(read)) == sum(map(len, MAXIMA.values()))


async def test_what_does_not_fit_the_state_is_refused_with_what_to_do(
    asker: QueryableStateClient,
) -> None:
    for _ in range(2):  # before and after the state is located
        with pytest.raises(InvalidRequestError, match=r"names no window: pass window=TimeWindow"):
            await asker.get_kv_state("windows", "maxima", "sensor_1")
        with pytest.raises(InvalidRequestError, match="'last' has no windows"):
            await asker.get_kv_state("windows", "last", "sensor_1", window=FIRST)
        with pytest.raises(InvalidRequestError, match="'last' has no windows"):
            await asker.get_windows("windows", "last", "sensor_1")
        with pytest.raises(InvalidRequestError, match="one window is named, too"):
            await asker.get_windows("windows", "maxima", "sensor_1", window=FIRST)
    with pytest.raises(InvalidRequestError, match="'last' has no windows"):
        async with asker.scan("windows", "last", window=FIRST) as scan:
            await scan.next_page()
    with pytest.raises(InvalidRequestError, match="names no window"):
        await asker.multi_get("windows", "maxima", KEYS)
    results = await asker.multi_get("windows", "last", KEYS)
    assert len(results.found()) == len(KEYS)


async def test_an_explanation_names_window_and_watermark(asker: QueryableStateClient) -> None:
    found = await asker.explain("windows", "maxima", "sensor_1", window=LAST)
    assert (found.window, found.error) == (LAST, None)
    assert found.state is not None
    text = str(found)
    assert f"window: {LAST}" in text
    assert "watermark: 1 ms since the epoch" in text
    [read] = [step for step in found.steps if step.name == "read"]
    assert "in window 240000 to 300000 ms as of batch 1, watermark 1 ms" in read.detail
    missing = await asker.explain("windows", "maxima", "nobody", window=LAST)
    assert missing.error is not None
    assert missing.error.reason == Reason.UNKNOWN_KEY


async def test_the_listing_says_which_states_have_windows(asker: QueryableStateClient) -> None:
    states = {state.state_name: state for state in await asker.list_states("windows")}
    assert {name for name, state in states.items() if state.is_windowed} == {
        "maxima",
        "events",
        "counts",
        "operator.timers",
    }
    assert states["operator.timers"].kind == "TIMER"
    assert states["operator.timers"].value_type is None


async def test_the_blocking_client_has_the_same_calls(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    host, _, port = cluster.servers[0].addresses.proxy.rpartition(":")

    def ask() -> None:
        with BlockingClient(host, int(port)) as client:
            found = client.get_windows("windows", "maxima", "sensor_0", 0, newest=2)
            assert list(found) == MINUTES[-2:]
            assert client.get_newest_window("windows", "maxima", "sensor_0").window == LAST
            assert len(client.get_timers("windows", "operator.timers", "sensor_1")) == 3

    await asyncio.to_thread(ask)


async def test_windows_of_a_scan_are_columns(asker: QueryableStateClient) -> None:
    frame = await asker.scan("windows", "maxima").to_pandas()
    assert list(frame.columns) == ["key", "window_start", "window_end", "value"]
    found = {
        (key, TimeWindow(start.to_pydatetime(), end.to_pydatetime())): value
        for key, start, end, value in frame.itertuples(index=False)
    }
    assert found == {(key, window): v for key, ws in MAXIMA.items() for window, v in ws.items()}
    one = await asker.scan("windows", "maxima", window=FIRST).to_pandas()
    assert list(one.columns) == ["key", "value"]
    keys = await asker.scan("windows", "events", keys_only=True).to_pandas()
    assert keys["window_start"].astype("int64").tolist() == [FIRST.start, LAST.start]


async def test_timers_of_a_scan_are_a_column(asker: QueryableStateClient) -> None:
    table = await asker.scan("windows", "operator.timers").to_arrow()
    found = {row["key"]: row["timers"] for row in table.to_pylist()}
    assert set(found) == set(TIMERS)
    assert found["sensor_1"][-1] == {
        "clock": "EVENT_TIME",
        "timestamp_ms": 59_999,
        "window_start_ms": FIRST.start,
        "window_end_ms": FIRST.end,
    }
