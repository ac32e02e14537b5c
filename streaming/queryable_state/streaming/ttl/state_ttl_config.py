"""Time to live of a state: when its values expire, who sees them then, and their clean-up."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from queryable_state.streaming.config.durations import Duration, Time, time_of
from queryable_state.streaming.ttl import cleanup_strategies as cleanup
from queryable_state.v1.registration_pb2 import TimeToLive
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from datetime import timedelta

_Choice = TypeVar("_Choice", bound=Enum)
_MOST_MS = (1 << 62) - 1


@dataclass(frozen=True, repr=False)
class StateTtlConfig:
    """The TTL of a state; built by `new_builder` and passed to `enable_time_to_live`.

    ttl = StateTtlConfig.new_builder(Time.hours(1)).update_ttl_on_read_and_write().build()
    descriptor.enable_time_to_live(ttl)
    """

    class UpdateType(Enum):
        """The accesses that begin the life of a value anew."""

        Disabled = 0
        """Values do not expire."""
        OnCreateAndWrite = 1
        """Writes."""
        OnReadAndWrite = 2
        """Writes and reads of the job's functions; queries do not."""

    class StateVisibility(Enum):
        """Visibility of expired values, to functions and to queries."""

        ReturnExpiredIfNotCleanedUp = 0
        """Expired values are seen until they are removed, at most for one more TTL."""
        NeverReturnExpired = 1
        """Expired values do not exist."""

    class TtlTimeCharacteristic(Enum):
        """The clock of expiry."""

        ProcessingTime = 0
        """The timestamp of the batch for functions, the clock of the server for queries."""

    CleanupStrategies = cleanup.CleanupStrategies

    _update_type: UpdateType
    _state_visibility: StateVisibility
    _ttl_time_characteristic: TtlTimeCharacteristic
    _ttl: Time
    _cleanup_strategies: cleanup.CleanupStrategies

    @staticmethod
    def new_builder(ttl: Time | timedelta) -> StateTtlConfig.Builder:
        """A builder of a config with this TTL, which is positive."""
        return StateTtlConfig.Builder(ttl)

    def get_update_type(self) -> UpdateType:
        """The accesses that begin the life of a value anew."""
        return self._update_type

    def get_state_visibility(self) -> StateVisibility:
        """The visibility of expired values."""
        return self._state_visibility

    def get_ttl(self) -> Time:
        """The time from the last update of a value to its expiry."""
        return self._ttl

    def get_ttl_time_characteristic(self) -> TtlTimeCharacteristic:
        """The clock of expiry."""
        return self._ttl_time_characteristic

    def is_enabled(self) -> bool:
        """False if values do not expire."""
        return self._update_type != StateTtlConfig.UpdateType.Disabled

    def get_cleanup_strategies(self) -> cleanup.CleanupStrategies:
        """The clean-up of expired values."""
        return self._cleanup_strategies

    def to_proto(self) -> TimeToLive:
        """The TTL as a part of a registration."""
        strategies = self._cleanup_strategies
        incremental = strategies.get_incremental_cleanup_strategy()
        fixed = strategies.get_rocksdb_compact_filter_cleanup_strategy()
        size = 0 if incremental is None else incremental.get_cleanup_size()
        each_row = incremental is not None and incremental.run_cleanup_for_every_record()
        on_read = self._update_type == StateTtlConfig.UpdateType.OnReadAndWrite
        return TimeToLive(
            ttl_ms=self._ttl.to_milliseconds(),
            update=TimeToLive.ON_READ_AND_WRITE if on_read else TimeToLive.ON_CREATE_AND_WRITE,
            return_expired=self._state_visibility == _RETURNING,
            clean_snapshots=strategies.in_full_snapshot(),
            visits_per_commit=0 if fixed is None else fixed.get_query_time_after_num_entries(),
            visits_per_change=size,
            visits_per_row=size if each_row else 0,
        )

    def __repr__(self) -> str:
        return (
            f"StateTtlConfig<update_type={self._update_type}, "
            f"state_visibility={self._state_visibility}, "
            f"ttl_time_characteristic={self._ttl_time_characteristic}, ttl={self._ttl}>"
        )

    class Builder:
        """Builder of a `StateTtlConfig`; each method but `build` returns the builder."""

        def __init__(self, ttl: Time | timedelta) -> None:
            self._update_type = StateTtlConfig.UpdateType.OnCreateAndWrite
            self._state_visibility = StateTtlConfig.StateVisibility.NeverReturnExpired
            self._ttl_time_characteristic = StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
            self._is_cleanup_in_background = True
            self._strategies: dict[
                cleanup.CleanupStrategies.Strategies, cleanup.CleanupStrategies.CleanupStrategy
            ] = {}
            self.set_ttl(ttl)

        def set_ttl(self, ttl: Time | timedelta) -> StateTtlConfig.Builder:
            """Sets the time from the last update of a value to its expiry."""
            self._ttl = time_of(ttl, "a TTL")
            if not 0 < self._ttl.to_milliseconds() <= _MOST_MS:
                raise InvalidRequestError(f"a TTL is 1 to {_MOST_MS} ms, not {self._ttl}")
            return self

        def set_update_type(self, update_type: StateTtlConfig.UpdateType) -> StateTtlConfig.Builder:
            """Sets the accesses that begin the life of a value anew."""
            self._update_type = _checked(update_type, StateTtlConfig.UpdateType)
            return self

        def update_ttl_on_create_and_write(self) -> StateTtlConfig.Builder:
            """Lets writes begin the life of a value anew, which is the default."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)

        def update_ttl_on_read_and_write(self) -> StateTtlConfig.Builder:
            """Lets reads begin the life of a value anew, too."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)

        def set_state_visibility(
            self, state_visibility: StateTtlConfig.StateVisibility
        ) -> StateTtlConfig.Builder:
            """Sets the visibility of expired values."""
            self._state_visibility = _checked(state_visibility, StateTtlConfig.StateVisibility)
            return self

        def return_expired_if_not_cleaned_up(self) -> StateTtlConfig.Builder:
            """Shows expired values until they are removed, at most for one more TTL."""
            return self.set_state_visibility(
                StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp
            )

        def never_return_expired(self) -> StateTtlConfig.Builder:
            """Hides expired values, which is the default."""
            return self.set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)

        def set_ttl_time_characteristic(
            self, ttl_time_characteristic: StateTtlConfig.TtlTimeCharacteristic
        ) -> StateTtlConfig.Builder:
            """Sets the clock of expiry; there is only `ProcessingTime`."""
            self._ttl_time_characteristic = _checked(
                ttl_time_characteristic, StateTtlConfig.TtlTimeCharacteristic
            )
            return self

        def use_processing_time(self) -> StateTtlConfig.Builder:
            """Sets the clock of expiry to `ProcessingTime`."""
            return self.set_ttl_time_characteristic(
                StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
            )

        def cleanup_full_snapshot(self) -> StateTtlConfig.Builder:
            """Leaves expired values out of savepoints and of checkpoints of the heap backend."""
            strategies = cleanup.CleanupStrategies.Strategies
            self._strategies[strategies.FULL_STATE_SCAN_SNAPSHOT] = (
                cleanup.CleanupStrategies.EMPTY_STRATEGY
            )
            return self

        def cleanup_incrementally(
            self, cleanup_size: int, run_cleanup_for_every_record: bool
        ) -> StateTtlConfig.Builder:
            """Visits this many records for each changed record, and also for each input row."""
            self._strategies[cleanup.CleanupStrategies.Strategies.INCREMENTAL_CLEANUP] = (
                cleanup.CleanupStrategies.IncrementalCleanupStrategy(
                    cleanup.checked_visits(cleanup_size, "cleanup_size"),
                    bool(run_cleanup_for_every_record),
                )
            )
            return self

        def cleanup_in_rocksdb_compact_filter(
            self,
            query_time_after_num_entries: int,
            periodic_compaction_time: Duration | None = None,
        ) -> StateTtlConfig.Builder:
            """Visits this many records after each commit. The other argument has no effect."""
            self._strategies[cleanup.CleanupStrategies.Strategies.ROCKSDB_COMPACTION_FILTER] = (
                cleanup.CleanupStrategies.RocksdbCompactFilterCleanupStrategy(
                    cleanup.checked_visits(
                        query_time_after_num_entries, "query_time_after_num_entries"
                    ),
                    *([] if periodic_compaction_time is None else [periodic_compaction_time]),
                )
            )
            return self

        def disable_cleanup_in_background(self) -> StateTtlConfig.Builder:
            """Runs only configured strategies; without any, reads remove expired values."""
            self._is_cleanup_in_background = False
            return self

        def build(self) -> StateTtlConfig:
            """The config."""
            return StateTtlConfig(
                self._update_type,
                self._state_visibility,
                self._ttl_time_characteristic,
                self._ttl,
                cleanup.CleanupStrategies(self._strategies, self._is_cleanup_in_background),
            )


UpdateType = StateTtlConfig.UpdateType
StateVisibility = StateTtlConfig.StateVisibility
_RETURNING = StateVisibility.ReturnExpiredIfNotCleanedUp


def _checked(choice: object, of: type[_Choice]) -> _Choice:
    if not isinstance(choice, of):
        raise InvalidRequestError(
            f"{choice!r} is no {of.__name__}: use one of {', '.join(map(str, of))}"
        )
    return choice
