"""One rule for what is not there: what reads one thing fails, what reads several leaves it out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from tests.cli.conftest import Terminal
from tests.client.timed.stored import FIRST

from queryable_state.client import TimeWindow, UnknownKeyOrNamespaceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.client import QueryableStateClient
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob

NOWHERE = TimeWindow(7, 8)

ABSENT = [
    ("last", "nobody", {}),
    ("maxima", "nobody", {"window": FIRST}),
    ("maxima", "sensor_1", {"window": NOWHERE}),
    ("events", "nobody", {"window": FIRST}),
    ("counts", "nobody", {"window": FIRST}),
]


@pytest.mark.parametrize(("state", "key", "options"), ABSENT)
async def test_a_read_of_one_thing_fails_and_one_of_several_leaves_it_out(
    asker: QueryableStateClient, state: str, key: str, options: dict[str, Any]
) -> None:
    name = ("windows", state)
    one_thing: list[Callable[[], Any]] = [
        lambda: asker.get_kv_state(*name, key, **options),
        lambda: asker.size(*name, key, **options),
    ]
    if state == "events":
        one_thing.append(lambda: asker.get_list_slice(*name, key, **options))
    if state == "counts":
        one_thing.append(lambda: asker.get_map_entry(*name, key, "x", **options))
    for call in one_thing:
        with pytest.raises(UnknownKeyOrNamespaceError, match=key):
            await call()
    assert not await asker.contains(*name, key, **options)
    assert await asker.get_kv_states(*name, [key], **options) == [None]
    several = await asker.multi_get(*name, [key], **options)
    assert (list(several.missing), several.complete) == ([key], True)


async def test_windows_and_timers_of_a_key_without_any_are_empty_and_the_newest_fails(
    asker: QueryableStateClient,
) -> None:
    windows = await asker.get_windows("windows", "maxima", "nobody")
    timers = await asker.get_timers("windows", "operator.timers", "nobody")
    assert (len(windows), windows.info.version, len(timers)) == (0, 1, 0)
    with pytest.raises(UnknownKeyOrNamespaceError, match="nobody"):
        await asker.get_newest_window("windows", "maxima", "nobody")


async def test_rest_follows_the_rule(cluster: InProcessCluster, job: InProcessJob) -> None:
    proxy = await cluster.add_proxy(web="on")
    states = f"{proxy.web_address}/api/v1/jobs/windows/states"
    window = "&window_start=7&window_end=8"
    async with aiohttp.ClientSession() as http:
        for path in ("last/value?key=nobody", f"maxima/value?key=sensor_1{window}"):
            async with http.get(f"{states}/{path}") as answer:
                found = await answer.json()
                assert (answer.status, found["error"]["reason"]) == (404, "UNKNOWN_KEY")
        async with http.get(f"{states}/maxima/windows?key=nobody") as answer:
            assert (answer.status, (await answer.json())["windows"]) == (200, [])
        async with http.post(f"{states}/last/values", json={"keys": ["nobody"]}) as answer:
            (result,) = (await answer.json())["values"]
            assert (answer.status, result["error"]["reason"]) == (200, "UNKNOWN_KEY")
        timers = f"{states.removesuffix('/states')}/timers?key=nobody"
        async with http.get(timers) as answer:
            (operator,) = (await answer.json())["operators"]
            assert (answer.status, operator["timers"]) == (200, [])


async def test_commands_end_with_1(
    cluster: InProcessCluster, job: InProcessJob, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal(cluster.servers[0].addresses.proxy, capsys)
    for command in (
        ("get", "last", "nobody"),
        ("get", "last", "nobody", "--exists"),
        ("get", "maxima", "sensor_1", "--window", "7/8"),
        ("mget", "last", "nobody"),
        ("windows", "maxima", "nobody"),
    ):
        try:
            exit_code = (await terminal.run(*command)).exit_code
        except UnknownKeyOrNamespaceError:
            exit_code = 1
        assert exit_code == 1, command
