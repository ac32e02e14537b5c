"""REST paths of the web port, on a proxy of a job in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from yarl import URL

from queryable_state.server.testing.cluster import declare

if TYPE_CHECKING:
    import aiohttp

    from queryable_state.server.testing.cluster import InProcessCluster

STATE = "/api/v1/jobs/sensors/states/last"


async def get(http: aiohttp.ClientSession, path: str, **query: Any) -> Any:
    """The JSON of an answer that has to be 200."""
    async with http.get(path, params=query) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.json()


async def refusal(http: aiohttp.ClientSession, path: str, **query: Any) -> tuple[int, Any]:
    """The status and the error of an answer."""
    async with http.get(path, params=query) as answer:
        body = await answer.json()
        return answer.status, body["error"]


async def test_jobs_states_and_their_types_are_listed(http: aiohttp.ClientSession) -> None:
    listed = (await get(http, "/api/v1/jobs"))["jobs"]
    assert [(job["name"], job["status"], job["states"]) for job in listed] == [
        ("sensors", "RUNNING", ["last"])
    ]
    assert listed[0]["job_id"] == listed[0]["job_id_hex"]
    (state,) = (await get(http, "/api/v1/jobs/sensors/states"))["states"]
    assert state == await get(http, STATE)
    assert (state["key_type"], state["value_type"]) == ("string", "double")
    by_id = await get(http, f"/api/v1/jobs/{listed[0]['job_id']}/states/last")
    assert by_id == state


async def test_a_value_has_the_batch_it_was_read_at(http: aiohttp.ClientSession) -> None:
    for key in ("sensor_7", '"sensor_7"'):
        found = await get(http, f"{STATE}/value", key=key)
        assert (found["key"], found["value"]) == ("sensor_7", 7.0)
        assert found["info"]["version"] == 0
        assert found["info"]["role"] == "OWNER"


async def test_many_values_come_in_the_order_of_their_keys(http: aiohttp.ClientSession) -> None:
    async with http.post(f"{STATE}/values", json={"keys": ["sensor_1", "no", "sensor_3"]}) as got:
        assert got.status == 200
        values = (await got.json())["values"]
    assert [each.get("value") for each in values] == [1.0, None, 3.0]
    assert values[1]["error"]["reason"] == "UNKNOWN_KEY"


async def test_a_scan_continues_with_its_cursor(http: aiohttp.ClientSession) -> None:
    found: dict[str, float] = {}
    query: dict[str, Any] = {"limit": 3}
    pages = 0
    while True:
        page = await get(http, f"{STATE}/scan", **query)
        pages += 1
        found |= {each["key"]: each["value"] for each in page["keys"]}
        if "cursor" not in page:
            assert page["complete"]
            break
        query["cursor"] = page["cursor"]
    assert found == {f"sensor_{n}": float(n) for n in range(8)}
    assert pages >= 3


async def test_explain_says_what_the_servers_did(http: aiohttp.ClientSession) -> None:
    found = await get(http, f"{STATE}/value", key="sensor_7", explain=1)
    assert found["value"] == 7.0
    assert found["trace"]["steps"]
    missing = await get(http, f"{STATE}/value", key="nobody", explain=1)
    assert missing["error"]["reason"] == "UNKNOWN_KEY"
    assert missing["trace"]["steps"]


@pytest.mark.parametrize("name", ["a/b", "{name}", "..", "100%", "a?b#c", "\N{SNOWMAN}"])
async def test_names_may_have_any_character(
    http: aiohttp.ClientSession, cluster: InProcessCluster, name: str
) -> None:
    job = cluster.job(name, declare(name, "string", "double"))
    await job.run(0, {name: {name: 1.0}})
    word = quote(name, safe="").replace(".", "%2E")
    path = f"/api/v1/jobs/{word}/states/{word}/value?key={word}"
    async with http.get(URL(path, encoded=True)) as answer:
        assert (await answer.json())["value"] == 1.0


async def test_a_url_that_is_not_utf_8_is_refused(http: aiohttp.ClientSession) -> None:
    """As another key it would be missing, or one that has the replacement character."""
    async with http.get(URL(f"{STATE}/value?key=Z%FCrich", encoded=True)) as answer:
        assert answer.status == 400
        assert "not UTF-8" in (await answer.json())["error"]["message"]


async def test_refusals_have_the_reasons_of_grpc(http: aiohttp.ClientSession) -> None:
    status, error = await refusal(http, f"{STATE}/value", key="nobody")
    assert (status, error["reason"]) == (404, "UNKNOWN_KEY")
    status, error = await refusal(http, "/api/v1/jobs/no/states/last/value", key="a")
    assert (status, error["reason"]) == (404, "UNKNOWN_JOB")
    assert any("sensors" in candidate for candidate in error["candidates"])
    for query in (
        {},
        {"key": "a", "timeout_ms": 0},
        {"key": "a", "timeout_ms": "soon"},
        {"key": "a", "other": 1},
        {"key": "a", "consistency": "STRONG"},
        {"key": "a", "window_start": 1},
        {"key": "a", "map_key": "b"},
    ):
        status, error = await refusal(http, f"{STATE}/value", **query)
        assert status == 400, query
    status, error = await refusal(http, f"{STATE}/value", key="a", min_version=99, timeout_ms=50)
    assert status in (503, 504)
    status, error = await refusal(http, "/api/v1/nothing")
    assert status == 404
    async with http.delete("/api/v1/jobs") as answer:
        assert (answer.status, answer.headers["Allow"]) == (405, "GET")


async def test_metrics_are_those_of_the_proxy(http: aiohttp.ClientSession) -> None:
    async with http.get("/metrics") as answer:
        assert answer.status == 200
        assert answer.content_type == "text/plain"
        assert "# TYPE" in await answer.text()


async def test_health_is_that_of_the_proxy(http: aiohttp.ClientSession) -> None:
    assert await get(http, "/health") == {"status": "SERVING"}


async def test_a_job_its_checkpoints_and_servers_are_described(
    http: aiohttp.ClientSession,
) -> None:
    job = await get(http, "/api/v1/jobs/sensors", history=1)
    assert (job["info"]["name"], job["info"]["committed_batch"]) == ("sensors", 0)
    assert [operator["states"] for operator in job["operators"]] == [["last"]]
    found = await get(http, "/api/v1/jobs/sensors/checkpoints")
    assert found["checkpoints"] == job["checkpoints"]
    (server,) = (await get(http, "/api/v1/servers"))["servers"]
    assert server["lease"] == "HELD"


async def test_a_state_is_measured(http: aiohttp.ClientSession) -> None:
    size = await get(http, f"{STATE}/size")
    assert size["keys"] == size["records"] == 8
    assert (size["exact"], size["complete"]) == (True, True)
    assert size["bytes"] > 0


async def test_hot_keys_are_listed(http: aiohttp.ClientSession) -> None:
    for _ in range(20):
        await get(http, f"{STATE}/value", key="sensor_7")
    for path in (STATE, "/api/v1/jobs/sensors"):
        found = await get(http, f"{path}/hot-keys", limit=3)
        assert {total["side"] for total in found["totals"]} == {"READ", "WRITE"}
        assert found["complete"]
