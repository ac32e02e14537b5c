"""Keys, records and bytes of each kind of state, on both backends."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from queryable_state.client import Clock, QueryableStateClient, TimeWindow
from queryable_state.server.testing.changes import ReplaceList, Windows
from queryable_state.server.testing.cluster import InProcessCluster, declare, windowed
from queryable_state.v1 import registration_pb2

if TYPE_CHECKING:
    from pathlib import Path

_FIRST, _SECOND = TimeWindow(0, 10), TimeWindow(10, 20)
_DAY_MS = 86_400_000
SIZES = {
    "last": (12, 12),
    "seen": (12, 12),
    "counts": (12, 24),
    "per_window": (12, 24),
    "timers": (12, 24),
    "living": (12, 12),
    "gone": (0, 0),
}


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
async def test_keys_and_records_are_exact_after_many_writes(tmp_path: Path, backend: str) -> None:
    keys = [f"sensor_{number}" for number in range(12)]
    async with InProcessCluster(tmp_path, backend=backend) as cluster:
        job = cluster.job(
            "sensors",
            declare("last", "string", "double"),
            declare("seen", "string", "string", kind=registration_pb2.LIST),
            declare("counts", "string", "bigint", kind=registration_pb2.MAP, map_key_type="string"),
            windowed(declare("per_window", "string", "bigint")),
            declare("timers", "string", None, kind=registration_pb2.TIMER),
            declare("living", "string", "bigint", ttl_ms=_DAY_MS),
            declare("gone", "string", "bigint", ttl_ms=1_000),
        )
        job.updated_ms = time.time_ns() // 1_000_000 - 60_000
        for batch in range(25):
            await job.run(
                batch,
                {
                    "last": dict.fromkeys(keys, float(batch)),
                    "seen": {key: ReplaceList(["a", "b"]) for key in keys},
                    "counts": {key: {"x": batch, "y": 2, f"z{batch}": None} for key in keys},
                    "per_window": {key: Windows({_FIRST: 1, _SECOND: batch}) for key in keys},
                    "timers": {
                        key: {
                            (Clock.EVENT_TIME, 10_000_000): True,
                            (Clock.EVENT_TIME, 20_000_000): True,
                        }
                        for key in keys
                    },
                    "living": dict.fromkeys(keys, batch),
                    "gone": dict.fromkeys(keys, batch),
                },
            )
        async with QueryableStateClient(addresses=[cluster.servers[0].addresses.proxy]) as client:
            found = {name: await client.measure("sensors", name) for name in SIZES}
    assert {name: (size.keys, size.records) for name, size in found.items()} == SIZES
    assert all(size.exact and size.complete for size in found.values())
    assert all(size.keys_error == size.bytes_error == 0 for size in found.values())
    assert all((size.bytes > size.records) == (size.records > 0) for size in found.values())
