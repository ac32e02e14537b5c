"""A fixture: the query, the batches fed to it, the settings that shape its files."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyspark
from tests.native_state.programs.written_query import (
    CHANGELOG_KEY,
    HDFS_BACKED,
    PROVIDER_KEY,
    ROCKSDB,
    Plan,
    WrittenQuery,
)

VERSION = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
"""Of the Spark that runs."""

STATE_STORE = "spark.sql.streaming.stateStore"
ROCKSDB_SNAPSHOTS = {PROVIDER_KEY: ROCKSDB, CHANGELOG_KEY: "false"}
ROCKSDB_CHANGELOGS = {
    PROVIDER_KEY: ROCKSDB,
    CHANGELOG_KEY: "true",
    f"{STATE_STORE}.minDeltasForSnapshot": "3",
}
UNIQUE_IDS = ROCKSDB_CHANGELOGS | {f"{STATE_STORE}.checkpointFormatVersion": "2"}
HDFS = {PROVIDER_KEY: HDFS_BACKED, f"{STATE_STORE}.minDeltasForSnapshot": "3"}


@dataclass(frozen=True, kw_only=True)
class Fixture:
    """A checkpoint to write."""

    name: str
    inputs: Mapping[str, str]
    plan: Plan
    feed: Callable[[WrittenQuery], None]
    settings: Mapping[str, str] = field(default_factory=lambda: ROCKSDB_CHANGELOGS)
    output_mode: str = "update"
    once: bool = False
    keeps_output: bool = False
    """The rows that the query emits are kept as well, as answers that need no state reader."""
    since: tuple[int, int] = (3, 5)
    """The first Spark version that writes it."""
    until: tuple[int, int] = (99, 0)
    """The last one."""
