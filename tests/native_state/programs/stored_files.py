"""Fixtures of what files can be: failed batches, unique ids, codecs, checksums, retention."""

from functools import partial

from tests.native_state.programs.fixture import (
    HDFS,
    ROCKSDB_CHANGELOGS,
    ROCKSDB_SNAPSHOTS,
    STATE_STORE,
    UNIQUE_IDS,
    Fixture,
)
from tests.native_state.programs.queries import aggregations, failures

_VARIANTS = {
    "zstd": {f"{STATE_STORE}.compression.codec": "zstd"},
    "snappy": {f"{STATE_STORE}.compression.codec": "snappy"},
    "lzf": {f"{STATE_STORE}.compression.codec": "lzf"},
    "row-checksum": {f"{STATE_STORE}.rowChecksum.enabled": "true"},
    "no-file-checksum": {"spark.sql.streaming.checkpoint.fileChecksum.enabled": "false"},
    "retained": {"spark.sql.streaming.minBatchesToRetain": "2"},
}
_UNCOUNTED = {f"{STATE_STORE}.rocksdb.trackTotalNumberOfRows": "false"}


def stored_files() -> list[Fixture]:
    """One windowed aggregation with each of them."""
    readings = partial(
        Fixture, inputs={"readings": aggregations.READINGS}, plan=aggregations.by_window
    )
    failing = partial(readings, feed=failures.feed_with_failures)
    windows = partial(readings, feed=aggregations.feed_windows)
    last = failures.feed_and_fail_last
    return [
        failing(name="retries-changelog"),
        failing(name="retries-snapshots", settings=ROCKSDB_SNAPSHOTS),
        failing(name="retries-hdfs", settings=HDFS),
        failing(name="retries-ids", settings=UNIQUE_IDS, since=(4, 1)),
        readings(name="failed-last", feed=last),
        readings(name="failed-last-ids", feed=last, settings=UNIQUE_IDS, since=(4, 1)),
        readings(
            name="repartitioned",
            feed=failures.feed_and_repartition,
            settings=UNIQUE_IDS,
            since=(4, 2),
        ),
        windows(name="uncounted", settings=ROCKSDB_CHANGELOGS | _UNCOUNTED),
        *(
            windows(name=f"{name}-{provider}", settings=settings | more)
            for provider, settings in (("changelog", ROCKSDB_CHANGELOGS), ("hdfs", HDFS))
            for name, more in _VARIANTS.items()
        ),
    ]
