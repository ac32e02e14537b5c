"""What the stateful tests change stores by, and what must become of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from queryable_state.internal.v1.changes_pb2 import ChangeBlock
from queryable_state.server.storage.overlay import OverlayBuilder
from queryable_state.server.storage.time_index import NextTimers
from queryable_state.wire.keys.timer_keys import (
    ELEMENT_BYTES,
    Clock,
    index_key_of,
    timer_element,
    timer_of,
)

if TYPE_CHECKING:
    from queryable_state.server.storage.overlay import Overlay

TIMERS = 5
STATES = (1, 2, TIMERS)
OPERATOR_STATES = (3, 4)

Records = dict[tuple[int, bytes], bytes]
"""Values by (state id, key)."""

Changes = list[tuple[int, list[bytes], list[bytes], dict[bytes, bytes]]]
"""Blocks: state id, prefixes cleared, keys deleted, puts."""

Lists = dict[int, tuple[bytes, ...]]
"""Elements by the id of an operator state."""

_BYTES = st.sampled_from([b"\x00", b"a", b"b", b"\xff"])
_GROUPS = st.sampled_from([b"\x00\x00", b"\x00\x01", b"\x00\x02", b"\xff\xff"])
_TAILS = st.lists(_BYTES, max_size=2).map(b"".join)
keys = st.tuples(_GROUPS, _TAILS).map(b"".join)
prefixes = st.one_of(
    st.tuples(_GROUPS, st.lists(_BYTES, max_size=1).map(b"".join)).map(b"".join),
    st.sampled_from([b"", b"\x00", b"\xff"]),
)
values = st.sampled_from([b"", b"1", b"2", b"3"])
state_ids = st.sampled_from(STATES)
times = st.sampled_from([-(1 << 63), -1, 0, 1, 2, 3, (1 << 63) - 1])
clocks = st.sampled_from(list(Clock))
timers = st.builds(lambda key, clock, time: key + timer_element(clock, time), keys, clocks, times)
changes_of_values = st.tuples(
    st.sampled_from((1, 2)),
    st.lists(prefixes, max_size=2),
    st.lists(keys, max_size=3),
    st.dictionaries(keys, values, max_size=5),
)
changes_of_timers = st.tuples(
    st.just(TIMERS),
    st.lists(prefixes, max_size=1),
    st.lists(timers, max_size=4),
    st.dictionaries(timers, st.just(b""), max_size=6),
)
changes = st.lists(st.one_of(changes_of_values, changes_of_timers), max_size=4)
lists = st.dictionaries(
    st.sampled_from(OPERATOR_STATES), st.lists(values, max_size=3).map(tuple), max_size=2
)


@dataclass(frozen=True)
class Batch:
    """What one attempt changes."""

    changes: Changes
    lists: Lists = field(default_factory=dict)

    def blocks(self) -> list[ChangeBlock]:
        """What the attempt would send."""
        blocks = [
            ChangeBlock(
                format_version=1,
                state_id=state_id,
                cleared_prefixes=clears,
                deleted_keys=deletes,
                put_keys=puts.keys(),
                put_values=puts.values(),
            )
            for state_id, clears, deletes, puts in self.changes
        ]
        for state_id, elements in self.lists.items():
            blocks.append(ChangeBlock(format_version=1, state_id=state_id))
            blocks[-1].operator_states.add(elements=elements)
        return blocks

    def overlay(self) -> Overlay:
        builder = OverlayBuilder()
        for block in self.blocks():
            builder.add_block(block)
        return builder.build()


@dataclass(frozen=True)
class Contents:
    """Everything one version holds."""

    records: Records = field(default_factory=dict)
    lists: Lists = field(default_factory=dict)

    def after(self, batch: Batch) -> Contents:
        """What becomes of it, one block after the other."""
        result = dict(self.records)
        for state_id, clears, deletes, puts in batch.changes:
            for state, key in list(result):
                if state == state_id and (key.startswith(tuple(clears)) or key in deletes):
                    del result[state, key]
            result.update({(state_id, key): value for key, value in puts.items()})
        return Contents(result, {**self.lists, **batch.lists})

    def timers(self) -> list[bytes]:
        """The pending timers, in the order in which they fire."""
        return sorted(index_key_of(key) for key, _ in self.of(TIMERS))

    def due(
        self, processing_time_ms: int, event_time_ms: int | None, after: bytes = b""
    ) -> list[bytes]:
        """The due timers, in the order in which they fire."""
        clocks = {Clock.PROCESSING_TIME: processing_time_ms, Clock.EVENT_TIME: event_time_ms}
        due = []
        for index_key in self.timers():
            clock, timestamp = timer_of(index_key[:ELEMENT_BYTES])
            until = clocks[clock]
            if until is not None and timestamp <= until and index_key > after:
                due.append(index_key)
        return due

    def next_timers(self) -> NextTimers:
        """The earliest pending timer of each clock."""
        found = [timer_of(index_key[:ELEMENT_BYTES]) for index_key in self.timers()]
        return NextTimers(
            *(min((time for of, time in found if of == clock), default=None) for clock in Clock)
        )

    def of(self, state_id: int) -> list[tuple[bytes, bytes]]:
        """The records of a state, in order."""
        return of_state(self.records, state_id)


batches = st.builds(Batch, changes, lists)


def of_state(records: Records, state_id: int) -> list[tuple[bytes, bytes]]:
    return sorted((key, value) for (state, key), value in records.items() if state == state_id)


def of_groups(records: Records, first: int, last: int) -> Records:
    """The records of these key groups, both inclusive."""
    return {
        (state, key): value
        for (state, key), value in records.items()
        if first <= int.from_bytes(key[:2]) <= last
    }
