"""Size of a state on this server: counted, or estimated from some of its key groups."""

from __future__ import annotations

import math
import random
from contextlib import ExitStack
from typing import TYPE_CHECKING

from queryable_state.server.state_server.queries.key_reads import gone_at
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import QueryableStateError
from queryable_state.wire.operator_state import OPERATOR_KINDS
from queryable_state.wire.values.value_codec import is_stale

if TYPE_CHECKING:
    from collections.abc import Generator

    from queryable_state.server.state_server.base.background_thread import BackgroundThread
    from queryable_state.server.state_server.stores.owned_subtask import OwnedSubtask
    from queryable_state.server.state_server.stores.store_table import StateRoute

COUNTED_RECORDS = 32_768
"""A subtask with at most so many records is counted; of a larger one at least so many are."""

# A sample of few large keys says little about their number.
_LEAST_KEYS = 256
_MOST_RECORDS = 8 * COUNTED_RECORDS
# Some milliseconds of the background thread, which commits wait for.
_SLICE_RECORDS = 2048
# To begin a key group takes as long as to read so many records.
_GROUP_RECORDS = 8


async def measured(
    route: StateRoute, state_id: int, background: BackgroundThread, now_ms: int
) -> list[query_pb2.StatePart]:
    """Returns one part for each subtask of the route, ordered by key group."""
    subtasks = sorted(route.subtasks, key=lambda subtask: subtask.first_key_group)
    # The first job of each is enqueued before the loop turns, so a store that is dropped is closed
    # after it; a later job of a closed store fails.
    counts = [_SizeCount(route, subtask, state_id, now_ms) for subtask in subtasks]
    handed_over = [background.run(count.advance) for count in counts]
    for count, first in zip(counts, handed_over, strict=True):
        more = await first
        while more:
            more = await background.run(count.advance)
    return [count.part for count in counts]


class _SizeCount:
    """Counts one subtask a slice at a time, on the background thread.

    Keys are hashed to key groups, so the keys of some key groups are a random sample of all: each
    key is in it with the same probability. It reads whole key groups until it has enough records.
    """

    def __init__(
        self, route: StateRoute, subtask: OwnedSubtask, state_id: int, now_ms: int
    ) -> None:
        info = route.job.info
        self.part = query_pb2.StatePart(
            first_key_group=subtask.first_key_group,
            last_key_group=subtask.last_key_group,
            subtask=subtask.id.subtask,
            info=info,
        )
        self.part.info.complete_since_batch = subtask.complete_since_batch
        self._version = info.version
        self._subtask = subtask
        self._state_id = state_id
        self._is_keyed = route.registration.kind not in OPERATOR_KINDS
        self._key_end = route.key_end if self._is_keyed else None
        self._gone_ms = gone_at(route, now_ms)
        self._stack = ExitStack()
        self._slices: Generator[None] | None = None

    def advance(self) -> bool:
        """Counts the next slice; returns True if there is more. Errors are in the part."""
        try:
            if not self._is_keyed:
                self._count_elements()
                return False
            if self._slices is None:
                self._slices = self._count_groups()
            if next(self._slices, self) is None:
                return True
        except QueryableStateError as problem:
            self.part.error.CopyFrom(problem.to_proto())
        self._stack.close()
        return False

    def _count_elements(self) -> None:
        elements = self._subtask.store.operator_state(self._state_id)
        self.part.keys = 1 if elements else 0
        self.part.records, self.part.bytes = len(elements), sum(map(len, elements))
        self.part.exact = True

    def _count_groups(self) -> Generator[None]:
        """Counts key groups until there are enough records; yields after each slice."""
        view = self._stack.enter_context(self._subtask.store.view(self._version))
        end = self._key_end
        assert end is not None
        first, last = self._subtask.first_key_group, self._subtask.last_key_group
        groups = list(range(first, last + 1))
        random.shuffle(groups)
        keys = records = size_bytes = 0
        # Sums of squares over the keys, for the variance of the estimates.
        record_squares = byte_squares = 0
        done, left, cut_off = 0, _SLICE_RECORDS, False
        for group in groups:
            if records >= COUNTED_RECORDS and (keys >= _LEAST_KEYS or records >= _MOST_RECORDS):
                break
            left -= _GROUP_RECORDS
            key, of_key, bytes_of_key = b"", 0, 0
            for store_key, value in view.scan(
                self._state_id, group.to_bytes(2), (group + 1).to_bytes(2)
            ):
                left -= 1
                if left <= 0:
                    left = _SLICE_RECORDS
                    yield
                if records >= COUNTED_RECORDS and len(groups) == 1:
                    # The store estimates how many there are behind them.
                    cut_off = True
                    break
                if self._gone_ms is not None and is_stale(value, self._gone_ms):
                    continue
                if not key or not store_key.startswith(key):
                    record_squares += of_key * of_key
                    byte_squares += bytes_of_key * bytes_of_key
                    key, of_key, bytes_of_key = store_key[: end(store_key, 2)], 0, 0
                    keys += 1
                size = len(store_key) + len(value)
                of_key += 1
                bytes_of_key += size
                records += 1
                size_bytes += size
            record_squares += of_key * of_key
            byte_squares += bytes_of_key * bytes_of_key
            done += 1
        scale = len(groups) / done
        if cut_off:
            scale = max(1.0, self._subtask.store.approximate_size(self._state_id)[0] / records)
        part = self.part
        part.keys, part.records = round(keys * scale), round(records * scale)
        part.bytes = round(size_bytes * scale)
        part.exact = done == len(groups) and not cut_off
        part.keys_error = _error(keys, scale)
        part.records_error = _error(record_squares, scale)
        part.bytes_error = _error(byte_squares, scale)


def _error(squares: int, scale: float) -> int:
    """Two standard deviations of the Horvitz-Thompson estimate of a sum over all keys."""
    return round(2 * math.sqrt(squares * scale * (scale - 1)))
