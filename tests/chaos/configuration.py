"""The settings of a round's Spark application."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tests.chaos.clusters import HOST
from tests.chaos.jobs.driver import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

    from tests.chaos.plan import RoundPlan

RELAY_HOST = "127.0.0.2"
LEASE_MS, MARGIN_MS = 2_000, 300


def configuration(plan: RoundPlan, folder: Path, port: int, *, durable: bool) -> dict[str, object]:
    """The settings, by name; `port`: where the coordinator listens."""
    ours: dict[str, object] = {
        "directory": folder / "servers",
        "backend": "rocksdb",
        "parallelism": plan.parallelism,
        "lease_ms": LEASE_MS,
        "lease_margin_ms": MARGIN_MS,
        # The relay has the coordinator's port on another loopback address.
        "host": HOST,
        "coordinator_host": RELAY_HOST,
        "coordinator_ports": port,
        "server_ports": 0,
        "server_frame_ports": 0,
        "proxy_ports": 0,
        "proxy_frame_ports": 0,
        "task_ports": 0,
        "metrics_ports": 0,
    }
    of_durable: dict[str, object] = {
        "execution.checkpointing.interval": f"{int(plan.snapshot_s * 1000)} ms",
        "execution.checkpointing.tolerable-failed-checkpoints": plan.tolerable_failures,
        "state.backend.fs.memory-threshold": plan.inline_bytes,
    }
    if not plan.file_sink:
        of_durable["state.checkpoints.dir"] = folder / "state"
    if not durable:
        ours["changelog"] = "off"
        of_durable = {}
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": HOST,
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.cores.max": "2",
        "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", str(REPOSITORY)),
        "spark.local.dir": folder / "local",
        "spark.sql.warehouse.dir": folder / "warehouse",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.minBatchesToRetain": "1000",
        **{f"spark.queryable_state.{name}": value for name, value in ours.items()},
        **of_durable,
    }
