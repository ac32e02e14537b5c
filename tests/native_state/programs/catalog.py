"""All fixtures that this version of Spark can write."""

from functools import partial

from tests.native_state.programs.fixture import (
    HDFS,
    ROCKSDB_CHANGELOGS,
    ROCKSDB_SNAPSHOTS,
    VERSION,
    Fixture,
)
from tests.native_state.programs.output_fixtures import output_fixtures
from tests.native_state.programs.queries import (
    aggregations,
    duplicates,
    group_states,
    joins,
    key_types,
    sessions,
    several,
)
from tests.native_state.programs.stored_files import stored_files

_FORMATS = {
    "aggregation": "spark.sql.streaming.aggregation.stateFormatVersion",
    "join": "spark.sql.streaming.join.stateFormatVersion",
    "groups": "spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion",
}


def _aggregations() -> list[Fixture]:
    readings = {"readings": aggregations.READINGS}
    of_keys = partial(Fixture, inputs=readings, feed=aggregations.feed_keys)
    windows = partial(
        Fixture, inputs=readings, plan=aggregations.by_window, feed=aggregations.feed_windows
    )
    first_format = HDFS | {_FORMATS["aggregation"]: "1"}
    return [
        of_keys(name="aggregation-rocksdb", plan=aggregations.by_key, settings=ROCKSDB_SNAPSHOTS),
        of_keys(name="aggregation-no-key", plan=aggregations.without_key, output_mode="complete"),
        windows(name="windows-changelog"),
        windows(name="windows-hdfs", settings=HDFS),
        windows(name="aggregation-v1", settings=first_format),
    ]


def _duplicates() -> list[Fixture]:
    events = partial(Fixture, inputs={"events": duplicates.EVENTS}, feed=duplicates.feed_events)
    return [
        events(name="dedup", plan=duplicates.by_id),
        events(name="dedup-time", plan=duplicates.by_id_and_time),
        events(name="dedup-time-hdfs", plan=duplicates.by_id_and_time, settings=HDFS),
        events(name="dedup-within-watermark", plan=duplicates.within_watermark),
        events(name="limit", plan=duplicates.first_rows, output_mode="append"),
    ]


def _joins() -> list[Fixture]:
    sides = partial(Fixture, inputs=joins.SIDES, feed=joins.feed_sides, output_mode="append")
    plans = {
        "join-inner": joins.inner,
        "join-time": joins.inner_in_time,
        "join-left-outer": joins.left_outer,
        "join-window": joins.by_window,
    }
    fixtures = [
        sides(
            name=f"{name}-v{version}",
            plan=plan,
            settings=ROCKSDB_CHANGELOGS | {_FORMATS["join"]: str(version)},
            since=since,
        )
        for version, since in ((2, (3, 5)), (3, (4, 1)), (4, (4, 3)))
        for name, plan in plans.items()
    ]
    first_format = HDFS | {_FORMATS["join"]: "1"}
    return [
        *fixtures,
        sides(name="join-left-outer-hdfs", plan=joins.left_outer, settings=HDFS),
        sides(
            name="join-inner-v1",
            plan=joins.inner,
            settings=first_format,
            until=(4, 0),
        ),
    ]


def _sessions() -> list[Fixture]:
    clicks = partial(
        Fixture,
        inputs={"clicks": sessions.CLICKS},
        plan=sessions.by_user,
        feed=sessions.feed_clicks,
        output_mode="append",
    )
    return [clicks(name="sessions"), clicks(name="sessions-hdfs", settings=HDFS)]


def _group_states() -> list[Fixture]:
    visits = partial(Fixture, inputs={"visits": group_states.VISITS}, feed=group_states.feed_visits)
    event_time, processing_time = (
        group_states.with_event_timeout,
        group_states.with_processing_timeout,
    )
    first_format = HDFS | {_FORMATS["groups"]: "1"}
    return [
        visits(name="groups", plan=group_states.without_timeout),
        visits(name="groups-event-time", plan=event_time),
        visits(name="groups-event-time-hdfs", plan=event_time, settings=HDFS),
        visits(name="groups-v1", plan=event_time, settings=first_format),
        visits(name="groups-processing-time", plan=processing_time, once=True),
    ]


def _types() -> list[Fixture]:
    numbers = partial(Fixture, inputs={"numbers": key_types.NUMBERS}, feed=key_types.feed_numbers)
    # Aggregations side by side need no order, which Spark does not see.
    side_by_side = ROCKSDB_CHANGELOGS | {"spark.sql.streaming.unsupportedOperationCheck": "false"}
    newer = key_types.by_newer_types
    times = side_by_side | {"spark.sql.timeType.enabled": "true"}
    return [
        numbers(name="key-types", plan=key_types.by_each_type, settings=side_by_side),
        numbers(name="key-types-newer", plan=newer, settings=times, since=(4, 1)),
        numbers(name="value-types", plan=key_types.values_of_each_type),
    ]


def _several() -> list[Fixture]:
    of_calls = partial(
        Fixture,
        inputs={"calls": several.CALLS},
        plan=several.chained,
        feed=several.feed_calls,
        output_mode="append",
    )
    return [of_calls(name="chained"), of_calls(name="chained-hdfs", settings=HDFS)]


def _processors() -> list[Fixture]:
    if VERSION < (4, 0):
        return []
    from tests.native_state.programs.processor_fixtures import processor_fixtures

    return processor_fixtures()


_FAMILIES = (
    _aggregations,
    _duplicates,
    _sessions,
    _joins,
    _group_states,
    _types,
    _several,
    _processors,
    stored_files,
    output_fixtures,
)
FIXTURES = tuple(
    fixture
    for family in _FAMILIES
    for fixture in family()
    if fixture.since <= VERSION <= fixture.until
)
