"""Recorded answers of the REST paths for one job in trouble and its neighbours."""

from __future__ import annotations

import math
import time
from typing import Any

JOB_ID = "6f1d2a7c9b3e4f508192a3b4c5d6e7f8"
SERVERS = ("server-1-k4x2", "server-2-p9d7", "server-3-m1q5")
_GROUPS = 128


def now_ms() -> int:
    """The time of the driver in the answers."""
    return int(time.time() * 1000)


def job(
    name: str, job_id: str, health: str, *, problem: str = "", status: str = "RUNNING"
) -> dict[str, Any]:
    """A job as the list of jobs has it."""
    return {
        "job_id": job_id,
        "name": name,
        "status": status,
        "started_at_ms": now_ms() - 5_400_000,
        "committed_batch": 1841,
        "states": ["lastTemperature"],
        "job_id_hex": job_id,
        "health": health,
        "problem": problem,
    }


PROBLEM = "Batch 1842 has failed 3 times: the function of operator `monitor` raises ValueError."


def jobs() -> list[dict[str, Any]]:
    """All jobs."""
    return [
        job("temperature", JOB_ID, "FAILING", problem=PROBLEM),
        job("clicks by user", "1" * 32, "HEALTHY"),
        job(
            "orders",
            "2" * 32,
            "ATTENTION",
            problem="The watermark has not moved for 12 minutes while rows arrive.",
        ),
        job("billing, nightly", "3" * 32, "ENDED", status="FINISHED"),
        job("fraud rules", "4" * 32, "RESTARTING", problem="Restarting after a lost server."),
    ]


def owners(*, lost: str | None = None) -> list[dict[str, Any]]:
    """Owners of the key groups of an operator; those of a lost server have none."""
    runs = [(0, 42), (43, 85), (86, _GROUPS - 1)]
    return [
        {
            "first_key_group": first,
            "last_key_group": last,
            "server_id": "" if server == lost else server,
            "open": server != lost,
        }
        for (first, last), server in zip(runs, SERVERS, strict=True)
    ]


def operator(
    uid: str, name: str, states: list[str], inputs: list[str], **more: Any
) -> dict[str, Any]:
    """An operator of the job."""
    return {
        "uid": uid,
        "name": name,
        "depth": 0,
        "inputs": inputs,
        "sources": [] if inputs else [0],
        "states": states,
        "parallelism": 3,
        "max_parallelism": _GROUPS,
        "owners": owners(),
        **more,
    }


def error(at_ms: int, **more: Any) -> dict[str, Any]:
    """An error of a run."""
    return {
        "at_ms": at_ms,
        "message": "ValueError: could not convert string to float: 'n/a'",
        "reason": "USER_FUNCTION_FAILED",
        "operator": "monitor",
        "key_json": '"sensor_7"',
        "record": "Row(sensor='sensor_7', reading='n/a', at=2026-11-23 21:40:07)",
        "batch_id": 1842,
        "run_id": "AAAA",
        "traceback": "Traceback (most recent call last):\n"
        '  File "/app/temperature_job.py", line 41, in process_element\n'
        "    reading = float(value.reading)\n"
        "ValueError: could not convert string to float: 'n/a'",
        "count": 3,
        **more,
    }


def history(ends_ms: int) -> list[dict[str, Any]]:
    """Batches of the last hour."""
    points = []
    for index in range(720):
        at_ms = ends_ms - (720 - index) * 5000
        wave = math.sin(index / 40) + 0.3 * math.sin(index / 7)
        slow = 900 if 500 < index < 520 else 0
        points.append(
            {
                "at_ms": at_ms,
                "batch_id": 1121 + index,
                "rows": int(5 * (2400 + 700 * wave)),
                "batch_ms": int(420 + 60 * wave + slow),
                "commit_ms": int(35 + 6 * wave + slow / 12),
                "watermark_ms": at_ms - 9000 - max(0, index - 600) * 900,
            }
        )
    return points


def checkpoint(
    number: int, at_ms: int, outcome: str = "COMPLETED", failure: str = ""
) -> dict[str, Any]:
    """An attempt at a checkpoint."""
    return {
        "checkpoint_id": number,
        "savepoint": False,
        "outcome": outcome,
        "batch_id": 1600 + number,
        "at_ms": at_ms,
        "duration_ms": 640,
        "bytes": 1 << 28,
        "new_bytes": 3 << 20,
        "path": "",
        "failure": failure,
    }


def description(*, lost: str | None = None, healthy: bool = False) -> dict[str, Any]:
    """The description of the job `temperature`."""
    now = now_ms()
    findings = [
        {
            "code": "JOB_FAILING",
            "severity": "ERROR",
            "since_ms": now - 96_000,
            "message": PROBLEM,
            "next_step": "Correct or skip the record of key sensor_7 (see errors), then restart.",
        },
        {
            "code": "CHECKPOINT_FAILED",
            "severity": "WARNING",
            "since_ms": now - 300_000,
            "message": "The newest checkpoint failed: no space left on device.",
            "next_step": "Free space below the state root, or give spark.queryable_state.root "
            "another place.",
        },
    ]
    if lost:
        findings.insert(
            0,
            {
                "code": "SERVER_LOST",
                "severity": "ERROR",
                "since_ms": now - 4000,
                "message": f"State server {lost} is gone; 43 key groups have no owner.",
                "next_step": "Nothing: another server takes them over within the lease.",
            },
        )
    operators = [
        operator("parse", "Parse readings", [], []),
        operator("monitor", "Monitor", ["lastTemperature", "maxTemperature"], ["parse"]),
        operator("hourly", "Hourly mean", ["hourlyMean"], ["parse"]),
        operator("alerts", "Alerts", ["openAlerts", "alertCount"], ["monitor", "hourly"]),
    ]
    for each in operators:
        each["owners"] = owners(lost=lost)
    return {
        "info": job(
            "temperature",
            JOB_ID,
            "HEALTHY" if healthy else "FAILING",
            problem="" if healthy else PROBLEM,
        ),
        "findings": [] if healthy else findings,
        **({} if healthy else {"last_error": error(now - 96_000)}),
        "errors": []
        if healthy
        else [
            error(now - 96_000),
            error(now - 3_000_000, message="ExecutorLost: executor 2", count=1, traceback=""),
        ],
        "restarts": 3,
        "rates": {"rows": 12_207, "rows_per_s": 2441.4},
        "last_batch": {
            "batch_id": 1841,
            "ended_at_ms": now - 2100,
            "batch_ms": 431,
            "commit_ms": 38,
            "lag_ms": 12,
            "running_batch_id": 1842,
            "running_since_ms": now - 1800,
        },
        "watermark": {"watermark_ms": now - 117_000, "moved_at_ms": now - 108_000, "rows_since": 9},
        "checkpoints": {
            "durable": True,
            "root": "s3://state/temperature",
            "interval_ms": 60_000,
            "last_completed": checkpoint(240, now - 360_000),
            "newest": [
                checkpoint(241, now - 300_000, "FAILED", "no space left on device"),
                *(checkpoint(240 - back, now - 360_000 - back * 60_000) for back in range(6)),
            ],
            "failures": 1,
            "last_failure": "no space left on device",
            "last_failure_at_ms": now - 300_000,
            "failures_in_a_row": 1,
        },
        "operators": operators,
        "restores": [],
        "savepoints": [
            {
                "savepoint": True,
                "path": "",
                "started_at_ms": now - 9000,
                "ranges_done": 5,
                "ranges": 12,
            }
        ],
        "history": [],
        "sources": [
            {
                "description": "KafkaV2[Subscribe[readings]]",
                "rows": 12_207,
                "input_rows_per_s": 2480.5,
            }
        ],
        "as_of_ms": now,
        "age_ms": 0,
    }


def servers(*, lost: str | None = None) -> list[dict[str, Any]]:
    """The state servers."""
    now = now_ms()
    return [
        {
            "server_id": server,
            "executor_id": str(index + 1),
            "host": f"10.0.0.{index + 11}",
            "query_address": f"10.0.0.{index + 11}:9067",
            "pid": 4100 + index,
            "log_file": f"/var/log/queryable-state/{server}.log",
            "lease": "LOST" if server == lost else "HELD",
            "registered_at_ms": now - 5_400_000,
            "renewed_at_ms": now - 700,
            "renewed_ago_ms": 700,
            "ended_at_ms": now - 4000 if server == lost else 0,
            "staged_bytes": 812_000,
            "key_groups": 172,
            "successors": [],
            "refused": 0,
            "refused_last_minute": 0,
            "most_refused": "",
        }
        for index, server in enumerate(SERVERS)
    ]
