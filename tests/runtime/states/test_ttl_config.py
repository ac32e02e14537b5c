"""`StateTtlConfig`, `Time` and `Duration`, with PyFlink's names and defaults."""

from __future__ import annotations

from datetime import timedelta

import pytest

from queryable_state.streaming import Duration, StateTtlConfig, Time, Types, ValueStateDescriptor
from queryable_state.v1.registration_pb2 import TimeToLive
from queryable_state.wire.errors import InvalidRequestError

STRATEGIES = StateTtlConfig.CleanupStrategies.Strategies


def test_the_defaults_are_flink_s() -> None:
    config = StateTtlConfig.new_builder(Time.seconds(1)).build()
    assert config.get_ttl() == Time.milliseconds(1_000)
    assert config.get_update_type() == StateTtlConfig.UpdateType.OnCreateAndWrite
    assert config.get_state_visibility() == StateTtlConfig.StateVisibility.NeverReturnExpired
    characteristic = StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
    assert config.get_ttl_time_characteristic() == characteristic
    assert config.is_enabled()
    strategies = config.get_cleanup_strategies()
    assert strategies.is_cleanup_in_background()
    assert not strategies.in_full_snapshot()
    incremental = strategies.get_incremental_cleanup_strategy()
    assert incremental is not None
    assert incremental.get_cleanup_size() == 5
    assert not incremental.run_cleanup_for_every_record()
    filtered = strategies.get_rocksdb_compact_filter_cleanup_strategy()
    assert filtered is not None
    assert filtered.get_query_time_after_num_entries() == 1000
    assert filtered.get_periodic_compaction_time() == Duration.of_days(30)


def test_every_option_is_kept() -> None:
    config = (
        StateTtlConfig.new_builder(Time.milliseconds(1))
        .set_ttl(Time.minutes(2))
        .set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)
        .set_state_visibility(StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp)
        .use_processing_time()
        .cleanup_full_snapshot()
        .cleanup_incrementally(10, True)
        .cleanup_in_rocksdb_compact_filter(500, Duration.of_hours(1))
        .disable_cleanup_in_background()
        .build()
    )
    strategies = config.get_cleanup_strategies()
    assert strategies.in_full_snapshot()
    assert not strategies.is_cleanup_in_background()
    incremental = strategies.get_incremental_cleanup_strategy()
    assert incremental == StateTtlConfig.CleanupStrategies.IncrementalCleanupStrategy(10, True)
    filtered = strategies.get_rocksdb_compact_filter_cleanup_strategy()
    assert filtered is not None
    assert filtered.get_periodic_compaction_time() == Duration.of_hours(1)
    assert config.to_proto() == TimeToLive(
        ttl_ms=120_000,
        update=TimeToLive.ON_READ_AND_WRITE,
        return_expired=True,
        clean_snapshots=True,
        visits_per_commit=500,
        visits_per_change=10,
        visits_per_row=10,
    )


def test_without_background_and_strategies_nothing_is_visited() -> None:
    builder = StateTtlConfig.new_builder(Time.seconds(1)).disable_cleanup_in_background()
    strategies = builder.build().get_cleanup_strategies()
    assert strategies.get_incremental_cleanup_strategy() is None
    assert strategies.get_rocksdb_compact_filter_cleanup_strategy() is None
    assert builder.build().to_proto() == TimeToLive(ttl_ms=1_000)


def test_the_short_names_are_the_long_ones() -> None:
    builder = StateTtlConfig.new_builder(Time.seconds(1))
    short = builder.update_ttl_on_read_and_write().return_expired_if_not_cleaned_up().build()
    assert short.get_update_type() == StateTtlConfig.UpdateType.OnReadAndWrite
    back = builder.update_ttl_on_create_and_write().never_return_expired().build()
    assert back == StateTtlConfig.new_builder(Time.seconds(1)).build()
    assert "update_type=UpdateType.OnReadAndWrite" in repr(short)
    assert "ttl=1000 ms" in repr(short)


def test_times_and_durations_have_every_unit() -> None:
    day_ms = 86_400_000
    assert Time.days(1) == Time.hours(24) == Time.minutes(1440) == Time.seconds(86_400)
    assert Time.days(1).to_milliseconds() == day_ms
    assert Duration.of_days(1) == Duration.of_hours(24) == Duration.of_minutes(1440)
    assert Duration.of_seconds(86_400) == Duration.of_millis(day_ms)
    assert str(Time.seconds(1)) == "1000 ms"
    assert StateTtlConfig.new_builder(Duration.of_nanos(1_500_000)).build().get_ttl() == (
        Time.milliseconds(1)
    )
    for ttl in (Duration.of_seconds(2), timedelta(seconds=2), Time.seconds(2)):
        assert StateTtlConfig.new_builder(ttl).build().get_ttl() == Time.seconds(2)
    with pytest.raises(InvalidRequestError, match="int"):
        Time.seconds(1.5)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequestError, match=r"Time\.hours"):
        StateTtlConfig.new_builder(5)  # type: ignore[arg-type]


def test_a_choice_of_another_kind_is_refused() -> None:
    builder = StateTtlConfig.new_builder(Time.seconds(1))
    with pytest.raises(InvalidRequestError, match="UpdateType"):
        builder.set_update_type("OnRead")  # type: ignore[arg-type]


def test_a_queryable_state_may_have_a_ttl() -> None:
    """Flink refuses both together."""
    descriptor = ValueStateDescriptor("last", Types.LONG())
    descriptor.set_queryable("last")
    config = StateTtlConfig.new_builder(Time.hours(1)).build()
    descriptor.enable_time_to_live(config)
    assert descriptor.ttl_config == config
    registered = descriptor.to_registration(
        job_id=bytes(16), operator_uid="uid", key_type=Types.STRING(), max_parallelism=128
    )
    assert (registered.queryable_name, registered.ttl.ttl_ms) == ("last", 3_600_000)
    other = ValueStateDescriptor("last", Types.LONG())
    other.set_queryable("last")
    assert descriptor != other
    assert not other.to_registration(
        job_id=bytes(16), operator_uid="uid", key_type=Types.STRING(), max_parallelism=128
    ).HasField("ttl")
