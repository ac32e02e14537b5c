"""All fixtures that this version of Spark can write."""

import pyspark
from tests.native_state.programs import (
    aggregations,
    duplicates,
    failures,
    group_states,
    joins,
    key_types,
    sessions,
    several,
)
from tests.native_state.programs.fixture import (
    HDFS,
    ROCKSDB_CHANGELOGS,
    ROCKSDB_SNAPSHOTS,
    STATE_STORE,
    Fixture,
)

VERSION = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
_JOIN_FORMAT = "spark.sql.streaming.join.stateFormatVersion"


def _aggregations() -> list[Fixture]:
    readings = {"readings": aggregations.READINGS}
    by_key = {"inputs": readings, "plan": aggregations.by_key, "feed": aggregations.feed_keys}
    by_window = {
        "inputs": readings,
        "plan": aggregations.by_window,
        "feed": aggregations.feed_windows,
    }
    old = {"spark.sql.streaming.aggregation.stateFormatVersion": "1"}
    return [
        Fixture(name="aggregation-rocksdb", settings=ROCKSDB_SNAPSHOTS, **by_key),
        Fixture(name="windows-changelog", **by_window),
        Fixture(name="windows-hdfs", settings=HDFS, **by_window),
        Fixture(name="aggregation-v1", settings=HDFS | old, **by_window),
        Fixture(
            name="aggregation-no-key",
            inputs=readings,
            plan=aggregations.without_key,
            feed=aggregations.feed_keys,
            output_mode="complete",
        ),
    ]


def _duplicates() -> list[Fixture]:
    plans = {
        "dedup": duplicates.by_id,
        "dedup-time": duplicates.by_id_and_time,
        "dedup-within-watermark": duplicates.within_watermark,
    }
    common = {"inputs": {"events": duplicates.EVENTS}, "feed": duplicates.feed_events}
    fixtures = [Fixture(name=name, plan=plan, **common) for name, plan in plans.items()]
    fixtures.append(
        Fixture(name="dedup-time-hdfs", plan=duplicates.by_id_and_time, settings=HDFS, **common)
    )
    fixtures.append(
        Fixture(name="limit", plan=duplicates.first_rows, output_mode="append", **common)
    )
    return fixtures


def _joins() -> list[Fixture]:
    plans = {
        "join-inner": joins.inner,
        "join-time": joins.inner_in_time,
        "join-left-outer": joins.left_outer,
        "join-window": joins.by_window,
    }
    return [
        Fixture(
            name=f"{name}-v{version}",
            inputs=joins.SIDES,
            plan=plan,
            feed=joins.feed_sides,
            output_mode="append",
            settings=(ROCKSDB_CHANGELOGS if version != 1 else HDFS) | {_JOIN_FORMAT: str(version)},
            since={3: (4, 1), 4: (4, 2)}.get(version, (3, 5)),
        )
        for version in (1, 2, 3, 4)
        for name, plan in plans.items()
        if version != 1 or (name == "join-inner" and VERSION == (3, 5))
    ] + [
        Fixture(
            name="join-left-outer-hdfs",
            inputs=joins.SIDES,
            plan=joins.left_outer,
            feed=joins.feed_sides,
            output_mode="append",
            settings=HDFS,
        )
    ]


def _sessions() -> list[Fixture]:
    common = {
        "inputs": {"clicks": sessions.CLICKS},
        "plan": sessions.by_user,
        "feed": sessions.feed_clicks,
        "output_mode": "append",
    }
    return [
        Fixture(name="sessions", **common),
        Fixture(name="sessions-hdfs", settings=HDFS, **common),
    ]


def _group_states() -> list[Fixture]:
    common = {"inputs": {"visits": group_states.VISITS}, "feed": group_states.feed_visits}
    old = {"spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion": "1"}
    event_time = group_states.with_event_timeout
    return [
        Fixture(name="groups", plan=group_states.without_timeout, **common),
        Fixture(name="groups-event-time", plan=event_time, **common),
        Fixture(name="groups-event-time-hdfs", plan=event_time, settings=HDFS, **common),
        Fixture(name="groups-v1", plan=event_time, settings=HDFS | old, **common),
        Fixture(
            name="groups-processing-time",
            plan=group_states.with_processing_timeout,
            once=True,
            **common,
        ),
    ]


def _processors() -> list[Fixture]:
    if VERSION < (4, 0):
        return []
    from tests.native_state.programs import processors

    common = {"inputs": {"measures": processors.MEASURES}, "feed": processors.feed_measures}
    variants = {
        "": ("Sensor", "None", False),
        "-ttl": ("Ttl", "ProcessingTime", True),
        "-event-timers": ("EventTimers", "EventTime", False),
        "-processing-timers": ("ProcessingTimers", "ProcessingTime", True),
    }
    fixtures = []
    for name, (processor, mode, once) in variants.items():
        rows = processors.on_rows(getattr(processors, f"Row{processor}"), mode)
        frames = processors.in_pandas(getattr(processors, f"Pandas{processor}"), mode)
        fixtures.append(
            Fixture(name=f"processor-pandas{name}", plan=frames, once=once, since=(4, 0), **common)
        )
        fixtures.append(
            Fixture(name=f"processor-rows{name}", plan=rows, once=once, since=(4, 1), **common)
        )
    return fixtures

    avro = ROCKSDB_CHANGELOGS | {f"{STATE_STORE}.encodingFormat": "avro"}
    for name in ("", "-ttl", "-event-timers"):
        processor, mode, once = variants[name]
        plan = processors.in_pandas(getattr(processors, f"Pandas{processor}"), mode)
        fixtures.append(
            Fixture(name=f"processor-avro{name}", plan=plan, once=once, settings=avro, **common)
        )
    from tests.native_state.programs import evolution

    fixtures.append(
        Fixture(
            name="processor-avro-evolved",
            inputs={"measures": evolution.MEASURES},
            plan=evolution.first_schema,
            feed=evolution.feed_and_evolve,
            settings=avro,
        )
    )
    plain = processors.in_pandas(processors.PandasSensor, "None")
    first_merge = ROCKSDB_CHANGELOGS | {f"{STATE_STORE}.rocksdb.mergeOperatorVersion": "1"}
    fixtures.append(
        Fixture(name="processor-merge-v1", plan=plain, settings=first_merge, since=(4, 1), **common)
    )
    fixtures.append(
        Fixture(name="processor-snapshots", plan=plain, settings=ROCKSDB_SNAPSHOTS, **common)
    )
    fixtures.append(
        Fixture(name="processor-ids", plan=plain, settings=_IDS, since=(4, 1), **common)
    )
    return fixtures


_IDS = ROCKSDB_CHANGELOGS | {f"{STATE_STORE}.checkpointFormatVersion": "2"}


def _files() -> list[Fixture]:
    common = {"inputs": {"readings": aggregations.READINGS}, "plan": aggregations.by_window}
    windows = {**common, "feed": aggregations.feed_windows}
    failing = {**common, "feed": failures.feed_with_failures}
    fixtures = [
        Fixture(name="retries-changelog", **failing),
        Fixture(name="retries-snapshots", settings=ROCKSDB_SNAPSHOTS, **failing),
        Fixture(name="retries-hdfs", settings=HDFS, **failing),
        Fixture(name="retries-ids", settings=_IDS, since=(4, 1), **failing),
        Fixture(name="failed-last", feed=failures.feed_and_fail_last, **common),
        Fixture(
            name="failed-last-ids",
            feed=failures.feed_and_fail_last,
            settings=_IDS,
            since=(4, 1),
            **common,
        ),
        Fixture(
            name="repartitioned",
            feed=failures.feed_and_repartition,
            settings=_IDS,
            since=(4, 2),
            **common,
        ),
    ]
    for provider, settings in (("changelog", ROCKSDB_CHANGELOGS), ("hdfs", HDFS)):
        variants = {
            "zstd": {f"{STATE_STORE}.compression.codec": "zstd"},
            "snappy": {f"{STATE_STORE}.compression.codec": "snappy"},
            "lzf": {f"{STATE_STORE}.compression.codec": "lzf"},
            "row-checksum": {f"{STATE_STORE}.rowChecksum.enabled": "true"},
            "no-file-checksum": {"spark.sql.streaming.checkpoint.fileChecksum.enabled": "false"},
            "retained": {"spark.sql.streaming.minBatchesToRetain": "2"},
        }
        fixtures += [
            Fixture(name=f"{name}-{provider}", settings=settings | more, **windows)
            for name, more in variants.items()
        ]
    uncounted = {f"{STATE_STORE}.rocksdb.trackTotalNumberOfRows": "false"}
    fixtures.append(Fixture(name="uncounted", settings=ROCKSDB_CHANGELOGS | uncounted, **windows))
    return fixtures


def _several() -> list[Fixture]:
    numbers = {"inputs": {"numbers": key_types.NUMBERS}, "feed": key_types.feed_numbers}
    unchecked = ROCKSDB_CHANGELOGS | {"spark.sql.streaming.unsupportedOperationCheck": "false"}
    return [
        Fixture(
            name="chained",
            inputs={"calls": several.CALLS},
            plan=several.chained,
            feed=several.feed_calls,
            output_mode="append",
        ),
        Fixture(name="key-types", plan=key_types.by_each_type, settings=unchecked, **numbers),
        Fixture(name="value-types", plan=key_types.values_of_each_type, **numbers),
        Fixture(
            name="key-types-newer",
            plan=key_types.by_newer_types,
            settings=unchecked | {"spark.sql.timeType.enabled": "true"},
            since=(4, 1),
            **numbers,
        ),
    ]


_FAMILIES = (
    _aggregations,
    _duplicates,
    _sessions,
    _joins,
    _group_states,
    _processors,
    _several,
    _files,
)
FIXTURES = tuple(
    fixture for family in _FAMILIES for fixture in family() if fixture.since <= VERSION
)
