"""Recorded answers of the REST paths for the states of a job."""

from __future__ import annotations

from typing import Any

from tests.page.recorded_job import JOB_ID, SERVERS, now_ms

SENSORS = [f"sensor_{number}" for number in range(1, 131)]
HOUR_MS = 3_600_000


def state(name: str, kind: str, key_type: str, value_type: str, **more: Any) -> dict[str, Any]:
    """A state as the list of states has it."""
    return {
        "job_id": JOB_ID,
        "job_name": "temperature",
        "queryable_name": name,
        "state_name": name,
        "operator_uid": "monitor",
        "operator_name": "Monitor",
        "kind": kind,
        "key_type": key_type,
        "value_type": value_type,
        "windowed": False,
        "ttl_ms": 0,
        "ttl_per_value": False,
        "asks_all_partitions": False,
        "max_parallelism": 128,
        **more,
    }


STATES = [
    state("lastTemperature", "VALUE", "string", "double"),
    state("maxTemperature", "REDUCING", "string", "double"),
    state(
        "device",
        "VALUE",
        "tuple<string,bigint>",
        "struct<name:string,seen:timestamp,limits:struct<low:decimal(6,2),high:decimal(6,2)>,"
        "tags:array<string>,raw:binary,model:pickled,serial:bigint>",
        ttl_ms=86_400_000,
    ),
    state("hourlyMean", "AGGREGATING", "string", "double", windowed=True, operator_uid="hourly"),
    state("openAlerts", "MAP", "string", "string", map_key_type="timestamp", operator_uid="alerts"),
    state("alertCount", "LIST", "string", "int", operator_uid="alerts"),
]

DEVICE = {
    "name": "boiler, north",
    "seen": "2026-11-23T21:40:07.120Z",
    "limits": {"low": "-4.50", "high": "88.00"},
    "tags": ["boiler", "critical"],
    "raw": "AAECA/8=",
    "model": {"$pickled": "gASVDAAAAAAAAABLAUsCSwOHlC4="},
    "serial": 9_007_199_254_740_993,
}


def value_of(name: str, key: Any, batch: int) -> Any:
    """The value of a key as of a batch; None: there is none."""
    if name == "device":
        return DEVICE if key[1] == 3 else {**DEVICE, "name": "boiler, south", "tags": ["boiler"]}
    if key not in SENSORS:
        return None
    number = SENSORS.index(key)
    if name == "openAlerts":
        return {"2026-11-23T21:31:00Z": "too hot", "2026-11-23T21:39:00Z": "silent"}
    if name == "alertCount":
        return [3, 1, 4, 1, 5]
    return round(18 + number / 7 + (batch * 7 % 11) / 10, 2)


def windows(batch: int) -> list[dict[str, Any]]:
    """Windows of one key."""
    start = now_ms() // HOUR_MS * HOUR_MS
    return [
        {
            "window": {"start_ms": start - back * HOUR_MS, "end_ms": start - (back - 1) * HOUR_MS},
            "value": round(21 + back / 3 + batch % 5 / 10, 2),
        }
        for back in range(6, -1, -1)
    ]


def read_info(batch: int, server: str = SERVERS[1]) -> dict[str, Any]:
    """Origin of an answer."""
    return {
        "version": batch,
        "commit_time_ms": now_ms() - 800,
        "watermark_ms": now_ms() - 9000,
        "role": "PROXY",
        "server_id": server,
        "complete_since_batch": 0,
    }


def trace() -> dict[str, Any]:
    """The steps of a look-up over a proxy."""
    proxy, owner = "proxy-driver", SERVERS[1]
    return {
        "steps": [
            {
                "server_id": proxy,
                "role": "PROXY",
                "name": "locate",
                "begun_us": 21,
                "took_us": 48,
                "detail": "placement 12",
                "cache_hit": True,
                "retried": False,
            },
            {
                "server_id": proxy,
                "role": "PROXY",
                "name": "ask owner",
                "begun_us": 90,
                "took_us": 1100,
                "detail": f"NOT_OWNER: {SERVERS[0]} does not own group 77",
                "cache_hit": False,
                "retried": True,
            },
            {
                "server_id": proxy,
                "role": "PROXY",
                "name": "locate",
                "begun_us": 1210,
                "took_us": 640,
                "detail": "placement 13",
                "cache_hit": False,
                "retried": False,
            },
            {
                "server_id": proxy,
                "role": "PROXY",
                "name": "ask owner",
                "begun_us": 1870,
                "took_us": 940,
                "detail": f"{owner} at 10.0.0.12:9067",
                "cache_hit": False,
                "retried": False,
            },
            {
                "server_id": owner,
                "role": "OWNER",
                "name": "wait",
                "begun_us": 10,
                "took_us": 120,
                "detail": "",
                "cache_hit": False,
                "retried": False,
            },
            {
                "server_id": owner,
                "role": "OWNER",
                "name": "read",
                "begun_us": 140,
                "took_us": 210,
                "detail": "1 record",
                "cache_hit": False,
                "retried": False,
            },
        ],
        "total_us": 2890,
        "key_group": 77,
        "subtask": 1,
        "operator_uid": "monitor",
        "owner_id": owner,
        "owner_address": "10.0.0.12:9067",
        "placement_version": 13,
    }


SIZE = {
    "keys": 1_204_331,
    "keys_error": 2_100,
    "records": 1_204_331,
    "records_error": 2_100,
    "bytes": 78_281_515,
    "complete": True,
}


def hot_keys(name: str) -> dict[str, Any]:
    """Hot keys of a state, or of all."""
    shares = [0.71, 0.08, 0.03, 0.02, 0.01]
    keys = [
        {
            "state_name": name or "lastTemperature",
            "key": "AAAA",
            "key_json": f'"sensor_{index + 7}"',
            "side": side,
            "count": int(140_000 * share),
            "error": 210,
            "share": share,
        }
        for side in ("READ", "WRITE")
        for index, share in enumerate(shares)
    ]
    return {"keys": keys, "totals": [], "window_ms": 58_000, "complete": True, "errors": []}
