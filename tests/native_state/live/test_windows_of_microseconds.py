"""Windows of Spark that are shorter than a millisecond, asked for in every way."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import aiohttp
import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from tests.cli.conftest import Terminal
from tests.native_state.programs.fixture import HDFS, ROCKSDB_CHANGELOGS
from tests.native_state.programs.written_query import WrittenQuery, settings
from tests.native_state.server.conftest import client_of, serving
from tests.security.access.sites import Asker
from tests.web.test_watches import events

from queryable_state.client import TimeWindow, UnknownKeyOrNamespaceError
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from queryable_state.server.native_state.server.native_server import NativeServer

__all__ = ["serving"]

BEGIN = datetime(2026, 1, 1, 10, tzinfo=UTC)
BEGIN_US = int(BEGIN.timestamp()) * 1_000_000
GAP_US = 200
FOLLOW = {"follow": True, "web": "on", "web_ports": "0"}


def time(micros: int) -> datetime:
    return BEGIN + timedelta(microseconds=micros)


def rows(key: str, micros: Iterable[int]) -> list[dict[str, Any]]:
    return [{"user": key, "at": time(each).isoformat()} for each in micros]


def window(start: int, end: int) -> TimeWindow:
    return TimeWindow.of_micros(BEGIN_US + start, BEGIN_US + end)


# Three sessions of "a" are in one millisecond; those of "b" have whole milliseconds, or not.
EVENTS = {"a": [0, 150, 500, 800], "b": [1000, *range(1150, 2800, 150), 2800, 3100]}
SESSIONS = {
    "a": {window(0, 350): 2, window(500, 700): 1, window(800, 1000): 1},
    "b": {window(1000, 3000): 13, window(3100, 3300): 1},
}


def sessions(read: Callable[[str], DataFrame]) -> DataFrame:
    return (
        read("clicks")
        .withWatermark("at", "1 hour")
        .groupBy("user", F.session_window("at", f"{GAP_US} microseconds"))
        .count()
    )


@pytest.mark.parametrize("stored", [ROCKSDB_CHANGELOGS, HDFS], ids=["rocksdb", "hdfs"])
async def test_sessions_within_a_millisecond_are_windows_of_their_own(
    stored: Mapping[str, str],
    spark: SparkSession,
    tmp_path: Path,
    serving: Callable[..., NativeServer],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By their exact bounds: in the client, REST, commands, Arrow, pages and watches."""
    query = WrittenQuery(
        spark,
        tmp_path,
        inputs={"clicks": "user STRING, at TIMESTAMP"},
        plan=sessions,
        output_mode="append",
        once=True,
    )
    with settings(spark, {**stored, "spark.sql.shuffle.partitions": "2"}):
        await asyncio.to_thread(
            query.feed, [row for key, micros in EVENTS.items() for row in rows(key, micros)]
        )
        async with (
            serving(query.checkpoint, **FOLLOW) as server,
            client_of(server) as client,
            aiohttp.ClientSession(server.web_address) as http,
        ):
            await _by_client(client)
            await _by_an_older_client(server.address)
            await _by_scan(client)
            await _by_rest(http)
            await _by_command(Terminal(server.address, capsys))
            changed = asyncio.create_task(_changes(client))
            watched = "/api/v1/jobs/query/states/sessions/watch"
            async with http.get(watched, params={"key": "a"}) as answer:
                stream = events(answer)
                await anext(stream)
                await asyncio.to_thread(query.feed, rows("a", [340]))
                # The event joins the first two sessions.
                kinds = {window(0, 700): "PUT", window(0, 350): "DELETE"}
                kinds |= {window(500, 700): "DELETE"}
                assert await asyncio.wait_for(changed, 60) == kinds
                found: dict[str, str] = {}
                async for _, message in stream:
                    for change in message.get("changes", ()):
                        found[json.dumps(change["window"])] = change["kind"]
                    if found:
                        break
                assert found == {json.dumps(key.jsonable()): kinds[key] for key in kinds}


async def _by_client(client: Any) -> None:
    for key, expected in SESSIONS.items():
        found = await client.get_windows("query", "sessions", key)
        assert {each: state.value().count for each, state in found.items()} == expected
        assert list(found) == sorted(expected)
        for each, n in expected.items():
            one = await client.get_kv_state("query", "sessions", key, window=each)
            assert (one.value().count, one.window) == (n, each)
            many = await client.get_kv_states("query", "sessions", [key, "no"], window=each)
            assert [state and state.value().count for state in many] == [n, None]
    for start, end in ((0, 351), (0, 349), (1, 350), (1000, 1200)):
        with pytest.raises(UnknownKeyOrNamespaceError):
            await client.get_kv_state("query", "sessions", "a", window=window(start, end))
    ranges = [(0, 1, 1), (0, 501, 2), (1, 500, 0), (1, 501, 1), (500, 800, 1), (801, 2000, 0)]
    for start, end, n in ranges:
        found = await client.get_windows("query", "sessions", "a", time(start), time(end))
        assert len(found) == n
    newest = await client.get_windows("query", "sessions", "a", newest=1)
    assert list(newest) == [window(800, 1000)]


async def _by_an_older_client(address: str) -> None:
    """It is refused, unless all windows that it finds are of whole milliseconds."""
    named = {"job": "query", "state_name": "sessions"}
    async with Asker(address, None) as asker:
        [message, *_] = await asker.ask("ScanKvState", **named)
        located = await asker.ask("LocateState", **named)
        state_id = located.location.registration.state_id
        keys = {each.window.start_us - BEGIN_US: each.key for each in message.keys}
        for key, until_ms, refusal in ((0, 1, "does not know"), (1000, 3, "")):
            query = query_pb2.Query(state_id=state_id, keys=[keys[key]], read=query_pb2.WINDOWS)
            query.windows.add(to_ms=BEGIN_US // 1000 + until_ms)
            (found,) = (await asker.ask("BatchGetKvState", query=query)).answers
            assert refusal in found.error.message
            assert bool(refusal) == found.HasField("error")


async def _by_scan(client: Any) -> None:
    expected = {(key, each): n for key, found in SESSIONS.items() for each, n in found.items()}
    async with client.scan("query", "sessions") as scan:
        assert {tuple(key): state.value().count async for key, state in scan} == expected
    async with client.scan("query", "sessions", window=window(500, 700)) as scan:
        assert {key: state.value().count async for key, state in scan} == {"a": 1}
    async with client.scan("query", "sessions", window=window(1000, 3000)) as scan:
        assert {key: state.value().count async for key, state in scan} == {"b": 13}
    table = await client.scan("query", "sessions").to_arrow()
    assert table.schema.field("window_start").type == pa.timestamp("us", tz="UTC")
    columns = table.select(["key", "window_start", "window_end", "count"]).to_pylist()
    found = {
        (row["key"], TimeWindow(row["window_start"], row["window_end"])): row["count"]
        for row in columns
    }
    assert found == expected


async def _by_rest(http: aiohttp.ClientSession) -> None:
    path = "/api/v1/jobs/query/states/sessions"

    async def get(what: str, **query: Any) -> Any:
        async with http.get(f"{path}/{what}", params=query) as answer:
            return await answer.json()

    found = await get("windows", key="a")
    assert [each["window"] for each in found["windows"]] == [
        {"start_us": BEGIN_US, "end_us": BEGIN_US + 350},
        {"start_us": BEGIN_US + 500, "end_us": BEGIN_US + 700},
        {"start_us": BEGIN_US + 800, "end_us": BEGIN_US + 1000},
    ]
    found = await get("windows", key="a", from_us=BEGIN_US + 1, to_us=BEGIN_US + 800)
    assert [each["window"]["start_us"] for each in found["windows"]] == [BEGIN_US + 500]
    assert "error" in await get("windows", key="a", from_us=BEGIN_US, from_ms=BEGIN_US // 1000)
    micros = {"window_start_us": BEGIN_US + 500, "window_end_us": BEGIN_US + 700}
    assert (await get("value", key="a", **micros))["value"]["count"] == 1
    whole = {"window_start": BEGIN_US // 1000 + 1, "window_end": BEGIN_US // 1000 + 3}
    assert (await get("value", key="b", **whole))["value"]["count"] == 13
    assert "error" in await get("value", key="b", window_start_us=BEGIN_US, **whole)
    # A page of one item: the cursor lies between two windows of one millisecond.
    pages: list[Any] = []
    cursor = None
    while cursor is not None or not pages:
        page = await get("scan", limit=1, **({"cursor": cursor} if cursor else {}))
        pages += [(each["key"], each["window"]) for each in page["keys"]]
        cursor = page.get("cursor")
    listed = [(key, each.jsonable()) for key, found in SESSIONS.items() for each in found]
    assert sorted(pages, key=repr) == sorted(listed, key=repr)
    assert (await get("scan", **micros))["keys"][0]["value"]["count"] == 1


async def _by_command(terminal: Terminal) -> None:
    ran = await terminal.run("windows", "sessions", "a")
    first = "2026-01-01T10:00:00.000500Z/2026-01-01T10:00:00.000700Z"
    shown = [row[0] for row in ran.rows[1:]]
    assert shown == [
        "2026-01-01T10:00:00Z/2026-01-01T10:00:00.000350Z",
        first,
        "2026-01-01T10:00:00.000800Z/2026-01-01T10:00:00.001Z",
    ]
    for text in shown:
        one = await terminal.run("get", "sessions", "a", "--window", text, "--json")
        assert one.json["value"]["count"] == (2 if text == shown[0] else 1)
    start, end = first.split("/")
    some = await terminal.run("windows", "sessions", "a", "--from", start, "--to", end, "--json")
    assert [each["window"] for each in some.json["windows"]] == [window(500, 700).jsonable()]
    with pytest.raises(InvalidRequestError):
        await terminal.run("get", "sessions", "a", "--window", f"{end}/{start}")


async def _changes(client: Any) -> dict[TimeWindow, str]:
    """The kinds of the changes of the next batch that has any, by window."""
    found: dict[TimeWindow, str] = {}
    async with client.watch("query", "sessions", keys=["a"]) as watch:
        async for change in watch:
            found[change.window] = change.kind.name
            if len(found) == 3:
                return found
    return found


async def test_tumbling_windows_of_ten_microseconds_are_keys(
    spark: SparkSession, tmp_path: Path, serving: Callable[..., NativeServer]
) -> None:
    """A `TimeWindow` in a key is exact, with an offset, too."""
    query = WrittenQuery(
        spark,
        tmp_path,
        inputs={"clicks": "user STRING, at TIMESTAMP"},
        plan=lambda read: (
            read("clicks")
            .groupBy(F.window("at", "10 microseconds", startTime="3 microseconds"), "user")
            .count()
        ),
        once=True,
    )
    with settings(spark, {**ROCKSDB_CHANGELOGS, "spark.sql.shuffle.partitions": "2"}):
        await asyncio.to_thread(query.feed, rows("a", [3, 12, 13, 25]))
    async with serving(query.checkpoint) as server, client_of(server) as client:
        for start, n in ((3, 2), (13, 1), (23, 1)):
            key = (window(start, start + 10), "a")
            found = await client.get_kv_state("query", "aggregation", key)
            assert found.value() == (n,)
        with pytest.raises(UnknownKeyOrNamespaceError):
            await client.get_kv_state("query", "aggregation", (window(4, 14), "a"))
