"""A watch by nothing but grpcurl."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.grpcurl.conftest import SERVICE

if TYPE_CHECKING:
    from tests.grpcurl.conftest import Grpcurl

    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob

pytestmark = pytest.mark.grpcurl


def messages(output: str) -> list[Any]:
    """The messages of a stream, which grpcurl writes as one JSON value after the other."""
    decoder, found, at = json.JSONDecoder(), [], 0
    while output[at:].strip():
        at += len(output[at:]) - len(output[at:].lstrip())
        message, at = decoder.raw_decode(output, at)
        found.append(message)
    return found


async def test_changes_are_json(
    grpcurl: Grpcurl, sensors: InProcessJob, cluster: InProcessCluster
) -> None:
    await sensors.run(2, {"last": {"sensor_1": 7.5, "sensor_2": 8.5}})
    request = {
        "job": sensors.name,
        "state_name": "last",
        "keys_json": ['"sensor_1"'],
        "after_batch": 1,
        "json": True,
    }
    # A watch has no end of its own.
    shown = await grpcurl(
        *("-max-time", "1", "-d", json.dumps(request)),
        cluster.servers[0].addresses.proxy,
        f"{SERVICE}/WatchKvState",
    )
    assert "DeadlineExceeded" in shown.complaint
    opened, changed = messages(shown.output)
    assert (opened["batch"], opened["complete"]) == ("1", True)
    assert changed["batch"] == "2"
    assert changed["changes"] == [
        {"kind": "PUT", "key_json": '"sensor_1"', "value_json": "7.5", "old_value_json": "1.5"}
    ]


async def test_a_refusal_says_why(
    grpcurl: Grpcurl, sensors: InProcessJob, cluster: InProcessCluster
) -> None:
    address = cluster.servers[0].addresses.proxy
    shown = await grpcurl.ask(
        address, "WatchKvState", job=sensors.name, state_name="last", after_batch=-2
    )
    assert shown.exit_code
    assert "after_batch is -2" in shown.complaint
