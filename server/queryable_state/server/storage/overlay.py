"""The changes of one version, held in memory over a base.

An overlay first removes every record below it that starts with one of its
cleared prefixes, then its own records apply: a value is a put, None a delete.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import islice
from typing import TYPE_CHECKING

from queryable_state.wire.errors import InvalidRequestError, Reason, SerializationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from queryable_state.internal.v1.changes_pb2 import ChangeBlock

_RUN_KEYS = 4096


class StateOverlay:
    """The changes of one state in one version; never changed once built."""

    __slots__ = ("_runs", "cleared", "cleared_lengths", "records")

    def __init__(
        self, records: Mapping[bytes, bytes | None], cleared: Iterable[bytes] = ()
    ) -> None:
        self.records = records
        self.cleared = frozenset(cleared)
        self.cleared_lengths = tuple(sorted({len(prefix) for prefix in self.cleared}))
        self._runs: list[list[bytes]] | None = None

    def hides(self, key: bytes) -> bool:
        """Whether a record of `key` below this overlay is cleared."""
        cleared = self.cleared
        return any(key[:length] in cleared for length in self.cleared_lengths)

    def sort(self) -> None:
        """Put the keys in order, which otherwise the first ordered read does.

        Sorted runs instead of one list: no single step holds the interpreter
        for longer than one run takes.
        """
        if self._runs is None:
            keys = iter(self.records)
            self._runs = list(iter(lambda: sorted(islice(keys, _RUN_KEYS)), []))

    def keys_from(self, start: bytes, end: bytes | None, limit: int) -> Sequence[bytes]:
        """The first `limit` keys of the own records with start <= key < end, in order."""
        self.sort()
        found: list[bytes] = []
        for run in self._runs or ():
            first = bisect_left(run, start)
            last = len(run) if end is None else bisect_left(run, end, first)
            found += run[first : min(last, first + limit)]
        found.sort()
        return found[:limit]


class Overlay:
    """All changes of one subtask in one version."""

    __slots__ = ("record_count", "size_bytes", "states")

    def __init__(
        self, states: Mapping[int, StateOverlay], size_bytes: int, record_count: int
    ) -> None:
        self.states = states
        self.size_bytes = size_bytes
        self.record_count = record_count

    def sort(self, state_ids: Iterable[int]) -> None:
        """Sort these states on the calling thread, so that no read on the event loop has to."""
        for state_id in state_ids:
            if state_id in self.states:
                self.states[state_id].sort()


class OverlayBuilder:
    """Gathers the change blocks of one attempt, in the order they arrive.

    Within a block clears come before deletes, and deletes before puts; a later
    block overrides earlier ones. Nothing reads an overlay before `build`.
    """

    def __init__(self) -> None:
        self.size_bytes = 0
        self.record_count = 0
        self._segments: dict[int, list[_Segment]] = {}

    def add_block(self, block: ChangeBlock) -> None:
        """Add a block; raises `SerializationError` or `InvalidRequestError` for a malformed one.

        `size_bytes` counts keys, values and prefixes of all blocks, overridden
        ones too: it bounds what an attempt makes the server hold.
        """
        keys, values = block.put_keys, block.put_values
        deleted, cleared = block.deleted_keys, block.cleared_prefixes
        if len(keys) != len(values):
            raise SerializationError(
                f"a change block of state {block.state_id} has {len(keys)} keys to put and "
                f"{len(values)} values: send one value for each key"
            )
        if block.timers or block.operator_states:
            raise InvalidRequestError(
                f"a change block of state {block.state_id} holds timers or operator state, "
                "which this store does not keep: remove them from the batch",
                reason=Reason.UNSUPPORTED,
            )
        segments = self._segments.setdefault(block.state_id, [])
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
        )


class _Segment:
    """Changes up to the next clear: prefixes cleared, then records."""

    __slots__ = ("cleared", "records")

    def __init__(self) -> None:
        self.cleared: set[bytes] = set()
        self.records: dict[bytes, bytes | None] = {}


def _merge(segments: Sequence[_Segment]) -> StateOverlay:
    """One overlay of several segments: what a later segment clears, an earlier one did not put."""
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
