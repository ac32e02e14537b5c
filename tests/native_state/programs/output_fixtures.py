"""Fixtures with the rows that their queries emit: the answers of versions without a state reader.

Each query emits its whole state, or rows that tell what the state is.
"""

from functools import partial

from tests.native_state.programs.fixture import HDFS, Fixture
from tests.native_state.programs.queries import aggregations, duplicates, joins, sessions

_FIRST_JOIN_FORMAT = {"spark.sql.streaming.join.stateFormatVersion": "1"}


def output_fixtures() -> list[Fixture]:
    """Aggregations and sessions in complete mode; first events and joined rows as they come."""
    whole = partial(Fixture, output_mode="complete", keeps_output=True)
    each = partial(Fixture, output_mode="append", keeps_output=True)
    windows = partial(
        whole,
        inputs={"readings": aggregations.READINGS},
        plan=aggregations.by_window,
        feed=aggregations.feed_windows,
    )
    clicks = partial(
        whole,
        inputs={"clicks": sessions.CLICKS},
        plan=sessions.by_user,
        feed=sessions.feed_clicks,
    )
    events = partial(each, inputs={"events": duplicates.EVENTS}, feed=duplicates.feed_events)
    sides = partial(each, inputs=joins.SIDES, plan=joins.inner, feed=joins.feed_sides, until=(4, 0))
    return [
        windows(name="emitted-windows"),
        windows(name="emitted-windows-hdfs", settings=HDFS),
        clicks(name="emitted-sessions"),
        clicks(name="emitted-sessions-hdfs", settings=HDFS),
        events(name="emitted-dedup", plan=duplicates.by_id),
        events(name="emitted-limit", plan=duplicates.first_rows),
        sides(name="emitted-join-v1", settings=HDFS | _FIRST_JOIN_FORMAT),
    ]
