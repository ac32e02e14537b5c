"""What a person with nothing but grpcurl sees of a job, on every port that answers queries."""

from __future__ import annotations

import base64
import json
import pickle
import re
from typing import TYPE_CHECKING, Any

import pytest
from tests.grpcurl.conftest import SERVICE

from queryable_state.server.testing.changes import Windows
from queryable_state.server.testing.cluster import declare, windowed
from queryable_state.v1 import registration_pb2
from queryable_state.wire.keys.pending_timers import PendingTimer, timers_jsonable
from queryable_state.wire.keys.time_window import TimeWindow
from queryable_state.wire.keys.timer_keys import Clock

if TYPE_CHECKING:
    from tests.grpcurl.conftest import Grpcurl, Shown

    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob

pytestmark = pytest.mark.grpcurl

KEY = '"sensor_1"'


@pytest.fixture
def proxy(cluster: InProcessCluster) -> str:
    """HOST:PORT of a state server's proxy."""
    return cluster.servers[0].addresses.proxy


async def test_every_port_describes_itself_and_is_healthy(
    grpcurl: Grpcurl, cluster: InProcessCluster, proxy: str
) -> None:
    alone = await cluster.add_proxy()
    for address in (cluster.servers[0].addresses.query, proxy, alone.address):
        listed = await grpcurl(address, "list")
        assert SERVICE in listed.output.split(), listed.complaint
        assert "grpc.health.v1.Health" in listed.output.split()
        for service in ("", SERVICE):
            health = await grpcurl(
                "-d", f'{{"service": "{service}"}}', address, "grpc.health.v1.Health/Check"
            )
            assert health.json == {"status": "SERVING"}
    described = await grpcurl(proxy, "describe", "queryable_state.v1.GetKvStateRequest")
    assert "string key_json = 3" in described.output


async def test_a_key_and_its_value_are_json(
    grpcurl: Grpcurl, sensors: InProcessJob, proxy: str
) -> None:
    for state, key, value in (
        ("last", KEY, "1.5"),
        ("statistics", KEY, '{"readings": 3, "label": "ok"}'),
        ("counts", KEY, '{"a": 1, "b": 2}'),
        ("seen", KEY, '["x", "y"]'),
        ("route", '["AA", 3]', '"2013-01-31"'),
        ("route", '{"carrier": "AA", "flight": 3}', '"2013-01-31"'),
    ):
        shown = await grpcurl.ask(
            proxy, "GetKvState", job=sensors.name, state_name=state, key_json=key
        )
        assert shown.json["value_json"] == value
        assert shown.json["info"]["version"] == "1"


async def test_a_pickled_value_is_marked_base64(
    grpcurl: Grpcurl, sensors: InProcessJob, proxy: str
) -> None:
    shown = await grpcurl.ask(proxy, "GetKvState", state_name="model", key_json="7")
    found = re.fullmatch(r'\{"\$pickled": "([A-Za-z0-9+/=]+)"\}', shown.json["value_json"])
    assert found is not None
    assert pickle.loads(base64.b64decode(found[1])) == {"weights": [1, 2]}


async def test_a_job_is_asked_by_name_by_id_or_not_named(
    grpcurl: Grpcurl, sensors: InProcessJob, proxy: str
) -> None:
    for job in (sensors.name, sensors.job_id, ""):
        shown = await grpcurl.ask(proxy, "GetKvState", job=job, state_name="last", key_json=KEY)
        assert shown.json["value_json"] == "1.5"


async def test_any_proxy_answers_and_a_server_answers_what_it_owns(
    grpcurl: Grpcurl, cluster: InProcessCluster, sensors: InProcessJob
) -> None:
    proxies = [server.addresses.proxy for server in cluster.servers]
    alone = await cluster.add_proxy()
    for address in (*proxies, alone.address):
        shown = await grpcurl.ask(address, "GetKvState", state_name="last", key_json=KEY)
        assert shown.json["value_json"] == "1.5"
    shown_by_owners = [
        await grpcurl.ask(server.addresses.query, "GetKvState", state_name="last", key_json=KEY)
        for server in cluster.servers
    ]
    refused, answered = sorted(shown_by_owners, key=lambda shown: shown.exit_code == 0)
    assert answered.json["value_json"] == "1.5"
    assert "FailedPrecondition" in refused.complaint
    assert "ask their owners, which LocateState names, or a proxy" in refused.complaint


@pytest.mark.parametrize(
    ("request_", "code", "text"),
    [
        (
            {"job": "sensors", "state_name": "last", "key_json": '"sensor_99"'},
            "NotFound",
            r"nothing is stored under key \"sensor_99\" of state 'last' of job 'sensors' \(",
        ),
        (
            {"job": "sensorz", "state_name": "last", "key_json": KEY},
            "NotFound",
            r"no job has the id or name 'sensorz'; known: 'sensors' \(\w{32}\), 'other' \(\w{32}\)",
        ),
        (
            {"job": "sensors", "state_name": "lst", "key_json": KEY},
            "NotFound",
            r"no queryable state 'lst' in job 'sensors'.*known: counts, last, model, route, seen",
        ),
        (
            {"state_name": "last", "key_json": KEY},
            "FailedPrecondition",
            r"2 jobs have a state 'last': name one of 'sensors' \(\w{32}\), 'other' \(\w{32}\)",
        ),
        (
            {"job": "sensors", "state_name": "last", "key_json": "7"},
            "InvalidArgument",
            r'key is string, written as in "sensor_1", not as 7: it needs quotes',
        ),
        (
            {"job": "sensors", "state_name": "last", "key_json": "sensor_1"},
            "InvalidArgument",
            r'not JSON .* a string key is written as in "sensor_1"',
        ),
        (
            {"job": "sensors", "state_name": "model", "key_json": '"seven"'},
            "InvalidArgument",
            r"key is bigint, written as in 7, not as 'seven'",
        ),
        (
            {"job": "sensors", "state_name": "route", "key_json": '["AA"]'},
            "InvalidArgument",
            r'written as in \{"carrier": "sensor_1", "flight": 7\}',
        ),
        (
            {"job": "sensors", "state_name": "last"},
            "InvalidArgument",
            r'give the key: key_json \(as in "sensor_1"\) or encoded_key',
        ),
        ({"key_json": KEY}, "InvalidArgument", r"no state is named"),
    ],
)
async def test_what_is_wrong_is_said_in_words(
    grpcurl: Grpcurl,
    sensors: InProcessJob,
    other: InProcessJob,
    proxy: str,
    request_: dict[str, str],
    code: str,
    text: str,
) -> None:
    shown = await grpcurl.ask(proxy, "GetKvState", **request_)
    assert shown.exit_code != 0
    assert f"Code: {code}" in shown.complaint
    assert re.search(text, shown.complaint), shown.complaint


async def test_jobs_are_listed_with_ids_that_can_be_asked_by(
    grpcurl: Grpcurl, sensors: InProcessJob, other: InProcessJob, proxy: str
) -> None:
    jobs = (await grpcurl.ask(proxy, "ListJobs")).json["jobs"]
    assert [(job["name"], job["job_id_hex"], job["status"]) for job in jobs] == [
        (job.name, job.job_id, "RUNNING") for job in (sensors, other)
    ]
    assert jobs[0]["states"] == ["counts", "last", "model", "route", "seen", "statistics"]
    assert jobs[0]["committed_batch"] == "1"


async def test_states_are_listed_with_kinds_and_types(
    grpcurl: Grpcurl, sensors: InProcessJob, proxy: str
) -> None:
    shown = await grpcurl.ask(proxy, "ListStates", job=sensors.name)
    states = {state["queryable_name"]: state for state in shown.json["states"]}
    assert states["counts"]["kind"] == "MAP"
    assert states["counts"]["map_key_type"] == {"kind": "STRING"}
    assert states["last"]["key_type"] == {"kind": "STRING"}
    assert states["last"]["value_types"] == [{"version": 1, "type": {"kind": "DOUBLE"}}]


async def test_an_entry_existence_and_size_are_json(
    grpcurl: Grpcurl, sensors: InProcessJob, proxy: str
) -> None:
    for asked, value in (
        ({"read": "ENTRY", "map_key_json": '"b"'}, "2"),
        ({"read": "EXISTS", "map_key_json": '"c"'}, "false"),
        ({"read": "EXISTS"}, "true"),
    ):
        shown = await grpcurl.ask(proxy, "GetKvState", state_name="counts", key_json=KEY, **asked)
        assert shown.json["value_json"] == value
    shown = await grpcurl.ask(proxy, "GetKvState", state_name="counts", key_json=KEY, read="SIZE")
    assert json.loads(shown.json["value_json"])["elements"] == 2


async def test_many_keys_are_json_and_of_one_batch(
    grpcurl: Grpcurl, sensors: InProcessJob, proxy: str
) -> None:
    keys = [f'"sensor_{number}"' for number in (3, 99, 7)]
    shown = await grpcurl.ask(
        proxy, "BatchGetKvState", state_name="last", keys_json=keys, one_cut=True
    )
    results = shown.json["results"]
    assert [result.get("value_json") for result in results] == ["3.5", None, "7.5"]
    assert results[1]["error"]["reason"] == "UNKNOWN_KEY"
    assert {result["info"]["version"] for result in results} == {"1"}


async def test_a_state_is_scanned_page_by_page_in_json(
    grpcurl: Grpcurl, sensors: InProcessJob, proxy: str
) -> None:
    asked = {"state_name": "last", "prefix_json": '"sensor_1"', "json": True, "limit": 4}
    pages = [_messages(await grpcurl.ask(proxy, "ScanKvState", **asked))]
    token = pages[0][-1]["page_token"]
    pages.append(_messages(await grpcurl.ask(proxy, "ScanKvState", page_token=token, **asked)))
    keys = [key for page in pages for message in page for key in message.get("keys", ())]
    assert {key["key_json"]: key["value_json"] for key in keys} == {
        f'"sensor_{number}"': f"{number}.5" for number in (1, *range(10, 16))
    }
    assert pages[1][-1]["last"]
    assert pages[1][-1]["complete"]


def _messages(shown: Shown) -> list[Any]:
    """The messages of a stream, which grpcurl shows one after the other."""
    assert shown.exit_code == 0, shown.complaint
    decoder, messages, text = json.JSONDecoder(), [], shown.output.strip()
    while text:
        message, end = decoder.raw_decode(text)
        messages.append(message)
        text = text[end:].lstrip()
    return messages


async def test_a_look_up_is_explained_and_a_state_measured(
    grpcurl: Grpcurl, sensors: InProcessJob, proxy: str
) -> None:
    asked = {"state_name": "last", "explain": True}
    told = (await grpcurl.ask(proxy, "GetKvState", key_json=KEY, **asked)).json
    assert told["value_json"] == "1.5"
    assert told["trace"]["steps"][0]["name"] == "locate"
    assert told["trace"]["steps"][-1]["name"] == "read"
    missing = (await grpcurl.ask(proxy, "GetKvState", key_json='"nobody"', **asked)).json
    assert missing["error"]["reason"] == "UNKNOWN_KEY"
    assert missing["trace"]["owner_id"]
    size = (await grpcurl.ask(proxy, "MeasureState", state_name="last")).json
    assert size["records"] == "16"
    assert size["complete"]


async def test_windows_and_timers_are_json(
    grpcurl: Grpcurl, cluster: InProcessCluster, proxy: str
) -> None:
    window = TimeWindow(0, 3_600_000)
    job = cluster.job(
        "windows",
        windowed(declare("maxima")),
        declare("operator.timers", kind=registration_pb2.TIMER),
    )
    timers = [PendingTimer(Clock.EVENT_TIME, 3_600_000)]
    registered = {(Clock.EVENT_TIME, 3_600_000): True}
    await job.run(0, {"maxima": {"a": Windows({window: 7})}, "operator.timers": {"a": registered}})
    asked: dict[str, Any] = {"state_name": "maxima", "key_json": '"a"'}
    one = await grpcurl.ask(proxy, "GetKvState", **asked, window=window.jsonable())
    assert one.json["value_json"] == "7"
    every = await grpcurl.ask(proxy, "GetKvState", **asked, read="WINDOWS")
    assert json.loads(every.json["value_json"]) == [{"window": window.jsonable(), "value": 7}]
    refused = await grpcurl.ask(proxy, "GetKvState", **asked)
    assert "InvalidArgument" in refused.complaint
    assert "names no window" in refused.complaint
    pending = await grpcurl.ask(proxy, "GetKvState", state_name="operator.timers", key_json='"a"')
    assert json.loads(pending.json["value_json"]) == timers_jsonable(timers)
