"""Overlay: the changes of one version, in memory over a base.

An overlay first removes every record below it that starts with one of its
cleared prefixes. Then its own records apply: a value is a put, None a delete.
"""

from __future__ import annotations

from bisect import bisect_left
from heapq import merge
from itertools import chain, islice
from types import MappingProxyType
from typing import TYPE_CHECKING

from queryable_state.server.storage.key_order import prefix_end
from queryable_state.wire.errors import SerializationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from queryable_state.internal.v1.changes_pb2 import ChangeBlock
    from queryable_state.server.storage.record_source import RecordSource


_RUN_KEYS = 4096
_NONE: Mapping[int, tuple[bytes, ...]] = MappingProxyType({})

_SAMPLE = 1024


def overlay_size(overlays: Iterable[StateOverlay], source: RecordSource) -> tuple[int, int]:
    """Estimates the (records, bytes) that overlays add to the base; negative if they remove more.

    `overlays` are newest first. The estimate comes from a sample of the changed keys and is
    exact for few keys. Records cleared by prefix count until they are compacted.
    """
    changes: dict[bytes, bytes | None] = {}
    for overlay in reversed(list(overlays)):
        changes.update(overlay.records)
    if not changes:
        return 0, 0
    keys = list(islice(changes, 0, None, -(-len(changes) // _SAMPLE)))
    records = size_bytes = 0
    for key, below in zip(keys, source.multi_get(keys), strict=True):
        value = changes[key]
        if value is not None:
            records += 1
            size_bytes += len(key) + len(value)
        if below is not None:
            records -= 1
            size_bytes -= len(key) + len(below)
    return records * len(changes) // len(keys), size_bytes * len(changes) // len(keys)


class StateOverlay:
    """The changes of one state in one version; immutable once built."""

    __slots__ = ("_runs", "by_time", "cleared", "cleared_lengths", "records")

    def __init__(
        self, records: Mapping[bytes, bytes | None], cleared: Iterable[bytes] = ()
    ) -> None:
        self.records = records
        self.cleared = frozenset(cleared)
        self.cleared_lengths = tuple(sorted({len(prefix) for prefix in self.cleared}))
        self.by_time: StateOverlay | None = None
        """The changes of a timer state by index key; None: not made yet."""
        self._runs: list[list[bytes]] | None = None

    def hides(self, key: bytes) -> bool:
        """True if this overlay clears a record of `key` below it."""
        cleared = self.cleared
        return any(key[:length] in cleared for length in self.cleared_lengths)

    @property
    def is_sorted(self) -> bool:
        """True once the keys are sorted: a range is found without a long step."""
        return self._runs is not None

    def sort(self) -> None:
        """Sorts the keys; otherwise the first ordered read does.

        Sorted runs instead of one list: no single step holds the GIL for longer than
        the sort of one run.
        """
        if self._runs is None:
            keys = iter(self.records)
            self._runs = list(iter(lambda: sorted(islice(keys, _RUN_KEYS)), []))

    def keys_from(self, start: bytes, end: bytes | None, limit: int) -> Sequence[bytes]:
        """The first `limit` keys of this overlay with start <= key < end, in order."""
        self.sort()
        pieces: list[tuple[list[bytes], range]] = []
        for run in self._runs or ():
            first = bisect_left(run, start)
            last = len(run) if end is None else bisect_left(run, end, first)
            if first < last:
                pieces.append((run, range(first, min(last, first + limit))))
        if len(pieces) == 1:
            [(run, indexes)] = pieces
            return run[indexes.start : indexes.stop]
        if sum(len(indexes) for _, indexes in pieces) <= _RUN_KEYS:
            found = [run[indexes.start : indexes.stop] for run, indexes in pieces]
            return sorted(chain.from_iterable(found))[:limit]
        # The limit drops most keys of many runs: one sort of all of them would be a long step.
        return list(
            islice(merge(*(map(run.__getitem__, indexes) for run, indexes in pieces)), limit)
        )


class Overlay:
    """All changes of one subtask in one version.

    It replaces the operator states in it as a whole.
    """

    __slots__ = ("operator_states", "record_count", "size_bytes", "states")

    def __init__(
        self,
        states: Mapping[int, StateOverlay],
        size_bytes: int,
        record_count: int,
        operator_states: Mapping[int, tuple[bytes, ...]] = _NONE,
    ) -> None:
        self.states = states
        self.operator_states = operator_states
        self.size_bytes = size_bytes
        self.record_count = record_count

    @property
    def state_ids(self) -> frozenset[int]:
        """All states that it changes, keyed and operator states."""
        return frozenset(self.states).union(self.operator_states)

    def sort(self, state_ids: Iterable[int]) -> None:
        """Sorts these states on the calling thread, so that no read on the event loop has to."""
        for state_id in state_ids:
            if state_id in self.states:
                self.states[state_id].sort()


class OverlayBuilder:
    """Builder of one attempt's overlay from its change blocks, in order of arrival.

    Within a block clears apply before deletes, and deletes before puts. A later block
    overrides earlier ones; the last elements of an operator state replace all others.
    """

    def __init__(self) -> None:
        self.size_bytes = 0
        self.record_count = 0
        self._segments: dict[int, list[_Segment]] = {}
        self._operator_states: dict[int, tuple[bytes, ...]] = {}

    def add_block(self, block: ChangeBlock) -> None:
        """Adds a block; raises `SerializationError` or `InvalidRequestError` for a malformed one.

        `size_bytes` counts keys, values and prefixes of all blocks, overridden ones too:
        it bounds the memory that one attempt takes on the server.
        """
        _check(block)
        self._add(
            block.state_id,
            block.cleared_prefixes,
            block.deleted_keys,
            block.put_keys,
            block.put_values,
        )
        for change in block.operator_states:
            self.set_operator_state(block.state_id, change.elements)

    def add_clipped(self, block: ChangeBlock, first_key_group: int, last_key_group: int) -> None:
        """Adds the keyed changes of a block in these key groups, both inclusive.

        For a block of another key-group range. Operator state is left out: `redistributed`
        decides which subtask gets it.
        """
        _check(block)
        first, end = first_key_group.to_bytes(2), prefix_end(last_key_group.to_bytes(2))

        def inside(key: bytes) -> bool:
            return first <= key and (end is None or key < end)

        touched = (block.cleared_prefixes, block.deleted_keys, block.put_keys)
        if all(inside(min(keys)) and inside(max(keys)) for keys in touched if keys):
            self._add(block.state_id, *touched, block.put_values)
            return
        puts = [
            record
            for record in zip(block.put_keys, block.put_values, strict=True)
            if inside(record[0])
        ]
        self._add(
            block.state_id,
            list(filter(inside, block.cleared_prefixes)),
            list(filter(inside, block.deleted_keys)),
            [key for key, _ in puts],
            [value for _, value in puts],
        )

    def set_operator_state(self, state_id: int, elements: Iterable[bytes]) -> None:
        """Sets the elements of an operator state."""
        self._operator_states[state_id] = elements = tuple(elements)
        self.record_count += 1
        self.size_bytes += sum(map(len, elements))

    def _add(
        self,
        state_id: int,
        cleared: Sequence[bytes],
        deleted: Sequence[bytes],
        keys: Sequence[bytes],
        values: Sequence[bytes],
    ) -> None:
        if not (cleared or deleted or keys):
            return
        segments = self._segments.setdefault(state_id, [])
        if not segments or (cleared and segments[-1].records):
            segments.append(_Segment())
        segment = segments[-1]
        segment.cleared.update(cleared)
        if deleted:
            segment.records.update(dict.fromkeys(deleted))
        segment.records.update(zip(keys, values, strict=True))
        self.record_count += len(cleared) + len(deleted) + len(keys)
        self.size_bytes += (
            sum(map(len, keys))
            + sum(map(len, values))
            + sum(map(len, deleted))
            + sum(map(len, cleared))
        )

    def build(self) -> Overlay:
        """The overlay of all blocks added; the builder must not be used afterwards."""
        return Overlay(
            {state_id: _merge(segments) for state_id, segments in self._segments.items()},
            self.size_bytes,
            self.record_count,
            self._operator_states,
        )


def _check(block: ChangeBlock) -> None:
    if len(block.put_keys) != len(block.put_values):
        raise SerializationError(
            f"a change block of state {block.state_id} has {len(block.put_keys)} keys to put and "
            f"{len(block.put_values)} values: send one value for each key"
        )


class _Segment:
    """Changes up to the next clear: cleared prefixes, then records."""

    __slots__ = ("cleared", "records")

    def __init__(self) -> None:
        self.cleared: set[bytes] = set()
        self.records: dict[bytes, bytes | None] = {}


def _merge(segments: Sequence[_Segment]) -> StateOverlay:
    """Merges segments into one overlay; drops earlier records that a later segment clears."""
    newest = segments[-1]
    if len(segments) == 1:
        return StateOverlay(newest.records, newest.cleared)
    records = newest.records
    above = StateOverlay({}, newest.cleared)
    for segment in reversed(segments[:-1]):
        for key, value in segment.records.items():
            if key not in records and not above.hides(key):
                records[key] = value
        above = StateOverlay({}, above.cleared | segment.cleared)
    return StateOverlay(records, above.cleared)
