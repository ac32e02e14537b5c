"""Strategies that remove expired values from the stores of a state."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, cast

from queryable_state.streaming.config.durations import Duration
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

_THIRTY_DAYS = Duration.of_days(30)
_DEFAULT_SIZE = 5
_DEFAULT_ENTRIES = 1000
_MOST = (1 << 32) - 1


class CleanupStrategies:
    """The clean-up of one state.

    Both backends run all strategies: after each commit the owner of a store visits records in the
    background, and removes those that no reader sees any more.
    """

    class Strategies(Enum):
        """Kinds of clean-up."""

        FULL_STATE_SCAN_SNAPSHOT = 0
        INCREMENTAL_CLEANUP = 1
        ROCKSDB_COMPACTION_FILTER = 2

    class CleanupStrategy:
        """Base of the strategies."""

    class EmptyCleanupStrategy(CleanupStrategy):
        """A strategy without options."""

    @dataclass(frozen=True)
    class IncrementalCleanupStrategy(CleanupStrategy):
        """Visits in proportion to the load."""

        _cleanup_size: int
        _run_cleanup_for_every_record: bool

        def get_cleanup_size(self) -> int:
            """Records to visit for each changed record."""
            return self._cleanup_size

        def run_cleanup_for_every_record(self) -> bool:
            """True to visit as many for each input row of the operator, too."""
            return self._run_cleanup_for_every_record

    @dataclass(frozen=True)
    class RocksdbCompactFilterCleanupStrategy(CleanupStrategy):
        """A fixed number of visits after each commit, in place of RocksDB's compaction filter."""

        _query_time_after_num_entries: int
        _periodic_compaction_time: Duration = _THIRTY_DAYS

        def get_query_time_after_num_entries(self) -> int:
            """Records to visit after each commit."""
            return self._query_time_after_num_entries

        def get_periodic_compaction_time(self) -> Duration:
            """Kept and returned; without effect, because visits do not depend on file ages."""
            return self._periodic_compaction_time

    EMPTY_STRATEGY = EmptyCleanupStrategy()

    def __init__(
        self, strategies: Mapping[Strategies, CleanupStrategy], is_cleanup_in_background: bool
    ) -> None:
        self._strategies = dict(strategies)
        self._is_cleanup_in_background = is_cleanup_in_background

    def is_cleanup_in_background(self) -> bool:
        """True if strategies that are not configured run with their defaults."""
        return self._is_cleanup_in_background

    def in_full_snapshot(self) -> bool:
        """True if savepoints and canonical checkpoints leave out expired values."""
        return self.Strategies.FULL_STATE_SCAN_SNAPSHOT in self._strategies

    def get_incremental_cleanup_strategy(self) -> IncrementalCleanupStrategy | None:
        """The visits in proportion to the load; None: there are none."""
        found = self._strategies.get(self.Strategies.INCREMENTAL_CLEANUP)
        if found is None and self._is_cleanup_in_background:
            found = self.IncrementalCleanupStrategy(_DEFAULT_SIZE, False)
        return cast("CleanupStrategies.IncrementalCleanupStrategy | None", found)

    def get_rocksdb_compact_filter_cleanup_strategy(
        self,
    ) -> RocksdbCompactFilterCleanupStrategy | None:
        """The fixed number of visits; None: there are none."""
        found = self._strategies.get(self.Strategies.ROCKSDB_COMPACTION_FILTER)
        if found is None and self._is_cleanup_in_background:
            found = self.RocksdbCompactFilterCleanupStrategy(_DEFAULT_ENTRIES)
        return cast("CleanupStrategies.RocksdbCompactFilterCleanupStrategy | None", found)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CleanupStrategies) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((frozenset(self._strategies), self._is_cleanup_in_background))


def checked_visits(count: object, what: str) -> int:
    """Returns a number of records; raises InvalidRequestError unless it is a positive int."""
    if not isinstance(count, int) or isinstance(count, bool) or not 0 < count <= _MOST:
        raise InvalidRequestError(f"{what} is {count!r}: it must be an int from 1 to {_MOST}")
    return count
