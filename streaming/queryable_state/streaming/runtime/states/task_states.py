"""States of one task, which begin, fetch and prepare together."""

from __future__ import annotations

import functools
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from queryable_state.internal.v1.backend_pb2 import DueTimers, StateFetch
from queryable_state.internal.v1.changes_pb2 import KeyRows
from queryable_state.streaming.runtime.operator_states.operator_state import OperatorStateContext
from queryable_state.streaming.runtime.states.cached_state import (
    CachedState,
    CurrentKey,
    StateContext,
)
from queryable_state.streaming.runtime.states.key_table import KeyTable
from queryable_state.streaming.runtime.states.state_spec import where
from queryable_state.streaming.runtime.timers.timer_descriptor import TIMERS_NAME
from queryable_state.streaming.runtime.windows.window_table import WindowTable
from queryable_state.v1.query_pb2 import ReadKind
from queryable_state.wire.changes import BlockSums, ChangeBlockBuilder
from queryable_state.wire.errors import (
    InternalError,
    JobError,
    LimitExceededError,
    Reason,
    SupersededError,
)
from queryable_state.wire.event_time import NO_WATERMARK
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.keys.store_keys import split_record_key
from queryable_state.wire.operator_state import subtask_key_of
from queryable_state.wire.schema.serializer_changes import unjudged_formats
from queryable_state.wire.schema.serializer_formats import readable_as
from queryable_state.wire.schema.type_model import Kind, TypeInfo

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    import pyarrow as pa

    from queryable_state.internal.v1.backend_pb2 import BeginResponse
    from queryable_state.streaming.descriptors import StateDescriptor
    from queryable_state.streaming.runtime.operator_states.operator_state import TaskOperatorState
    from queryable_state.streaming.runtime.states.access import StateAccess
    from queryable_state.streaming.runtime.states.input_spec import InputSpec
    from queryable_state.streaming.runtime.states.key_table import Slots
    from queryable_state.streaming.runtime.states.state_spec import StateSpec, TaskIdentity
    from queryable_state.streaming.runtime.timers.due_page import DuePage
    from queryable_state.streaming.runtime.timers.task_timers import TaskTimers
    from queryable_state.v1.registration_pb2 import StateRegistration
    from queryable_state.wire.changes import Seal


def judge_serializers(
    refusal: JobError,
    registrations: Sequence[StateRegistration],
    descriptors: Sequence[StateDescriptor],
    where: str,
) -> None:
    """Adds the formats that the refusal of a begin asks about to the registration of their state.

    `registrations` and `descriptors` are aligned. Raises JobError (INCOMPATIBLE_STATE) if a
    declared serializer cannot read a stored format, and any other refusal again; nothing is
    registered then.
    """
    question = unjudged_formats(refusal)
    if question is None:
        raise refusal
    state_name, forms = question
    position = [descriptor.name for descriptor in descriptors].index(state_name)
    readable = registrations[position].readable_serializers
    for form in forms:
        stored = TypeInfo(Kind.CUSTOM, serializer_format=form)
        declared = [
            info
            for info in _custom_types_of(descriptors[position])
            if info.format_name == form.name
        ]
        if not declared or form.to_proto() in readable:
            raise refusal
        for info in declared:
            readable_as(stored, info, f"{where}: state {state_name!r}")
        readable.append(form.to_proto())


def _custom_types_of(descriptor: StateDescriptor) -> Iterator[TypeInfo]:
    for root in (descriptor.value_type, descriptor.accumulator_type):
        if root is not None:
            yield from _custom_types(root)


def _custom_types(info: TypeInfo) -> Iterator[TypeInfo]:
    if info.kind == Kind.CUSTOM:
        yield info
    for field in info.fields:
        yield from _custom_types(field.type)
    if info.element is not None:
        yield from _custom_types(info.element)


_log = logging.getLogger(__name__)

_FINGERPRINT_BITS = (1 << 64) - 1
MOST_KEYS = 64
"""Keys of one task that are reported with the number of their rows, for hot keys."""


class StateLoader:
    """Fetches states for slots; one call has at most `fetch_keys` keys."""

    def __init__(self, access: StateAccess, fetch_keys: int) -> None:
        self._access = access
        self._fetch_keys = fetch_keys

    def load_chunk(self, *states: CachedState) -> None:
        """Fetches the unseen slots of the chunk for all these states in shared calls."""
        wanted = [
            (state, [slot for slot in state.table.chunk_slots if state.is_unseen(slot)])
            for state in states
        ]
        self.fetch(*wanted)

    def fetch(self, *wanted: tuple[CachedState, Sequence[int]]) -> None:
        """Fetches each state for its slots."""
        for part in fetch_parts(wanted, self._fetch_keys):
            self._fetch(part)

    def _fetch(self, part: list[tuple[CachedState, Sequence[int]]]) -> None:
        fetches = [state.request(slots) for state, slots in part]
        try:
            answers = self._access.fetch(fetches)
        except LimitExceededError:
            # The values exceed the limit of one response: split the request.
            if len(part) == 1 and len(part[0][1]) == 1:
                raise
            for half in fetch_halves(part):
                self._fetch(half)
            return
        for (state, slots), values in zip(part, answers, strict=True):
            state.take(slots, values)


def fetch_parts(
    wanted: Sequence[tuple[CachedState, Sequence[int]]], limit: int
) -> Iterator[list[tuple[CachedState, Sequence[int]]]]:
    """Splits the requested slots into calls of at most `limit` keys."""
    part: list[tuple[CachedState, Sequence[int]]] = []
    room = limit
    for state, slots in wanted:
        taken = 0
        while taken < len(slots):
            piece = slots[taken : taken + room]
            part.append((state, piece))
            taken += len(piece)
            room -= len(piece)
            if room == 0:
                yield part
                part, room = [], limit
    if part:
        yield part


def fetch_halves(
    part: list[tuple[CachedState, Sequence[int]]],
) -> Iterator[list[tuple[CachedState, Sequence[int]]]]:
    """Splits a call that is too large into two."""
    if len(part) > 1:
        middle = len(part) // 2
        yield part[:middle]
        yield part[middle:]
    else:
        state, slots = part[0]
        middle = len(slots) // 2
        yield [(state, slots[:middle])]
        yield [(state, slots[middle:])]


class KeyRowCounter:
    """Counts rows by the slots of their keys."""

    def __init__(self) -> None:
        self._rows: Slots = np.zeros(0, dtype=np.int64)

    def add(self, slots: Slots, keys: int) -> None:
        """Adds the rows of a chunk; `keys` is the number of all slots so far."""
        counted = np.bincount(slots, minlength=keys)
        counted[: len(self._rows)] += self._rows
        self._rows = counted

    def most(self, wire_keys: Sequence[bytes]) -> KeyRows:
        """The keys with the most rows, at most 64; `wire_keys` are all keys by slot.

        A key that has as many rows as one that is left out is left out too, so a task that sees
        each key equally often reports none.
        """
        rows = self._rows
        most_omitted = 0
        slots: Slots = np.arange(len(rows))
        if len(rows) > MOST_KEYS:
            split = len(rows) - MOST_KEYS
            order = np.argpartition(rows, split - 1)
            most_omitted = int(rows[order[split - 1]])
            slots = order[split:]
        slots = slots[rows[slots] > most_omitted]
        slots = slots[np.argsort(-rows[slots], kind="stable")]
        return KeyRows(
            keys=[wire_keys[slot] for slot in slots.tolist()],
            rows=rows[slots].tolist(),
            total=int(rows.sum()),
            most_omitted=most_omitted,
        )


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of one batch to the states of one subtask."""

    blocks: Sequence[bytes]
    seal: Seal


class TaskStates:
    """The states of a task in one batch.

    Call order: `begin`, then `start_chunk` for each chunk, then `changes`, then `prepare`. A task
    without input also begins and prepares: its empty seal shows that it ran.

    A committed batch can be replayed while the owner still has the version before it: the task
    computes its output from that version, and `prepare` changes nothing. If that version is gone,
    `begin` raises `SupersededError`.
    """

    def __init__(
        self,
        spec: StateSpec,
        task: TaskIdentity,
        access: StateAccess,
        states: Collection[CachedState],
        operator_states: Collection[TaskOperatorState] = (),
        timers: TaskTimers | None = None,
    ) -> None:
        """States may be added to both collections until the last `begin`. `timers`: the timers of
        the operator; None: it has none."""
        self.where = where(spec, task)
        self.current_key = CurrentKey()
        self.keys = KeyTable(spec, task.subtask, self.where)
        self.batch_timestamp_ms = 0
        self.watermark_ms = NO_WATERMARK
        self._spec = spec
        self._task = task
        self._access = access
        self._loader = StateLoader(access, spec.settings.fetch_keys)
        self._states = states
        self._operator_states = operator_states
        self._timers = timers
        self._due = DueTimers()
        self._registered: dict[str, StateRegistration] | None = None
        """The registered states by name; None before `begin`."""
        self.sealed_before = False
        """True if an earlier attempt has sealed the batch, which is not committed."""
        self._fingerprint = 0
        self._row_count = 0
        self._key_rows = KeyRowCounter() if spec.settings.hot_keys else None

    @functools.cached_property
    def windows(self) -> WindowTable:
        """The slots of windowed states."""
        return WindowTable(self.keys)

    @property
    def is_begun(self) -> bool:
        """True if `begin` has registered all states that are declared now."""
        return self._registered is not None and self._declared().keys() <= self._registered.keys()

    def registrations(self) -> list[StateRegistration]:
        """The states as `begin` declares them."""
        return self._spec.registrations(self._declared().values(), self._task)

    def begin(self, expected: Iterable[StateDescriptor] = ()) -> None:
        """Registers the states and pins the version before the batch.

        `expected` are all states of the operator, if some are not declared yet. A state that the
        operator does not register in a run is given up, so a task must not register some of them
        first. Called again, `begin` binds states that were declared since; the version stays
        pinned.
        """
        declared = self._declared()
        descriptors = {each.name: each for each in expected} | declared
        if len(declared) < len(self._every()):
            raise JobError(
                f"{self.where}: two states have the same name, of its keyed states, its operator "
                f"states and its timers ({TIMERS_NAME!r}): rename one",
                reason=Reason.DUPLICATE_NAME,
            )
        if self._registered is None or not descriptors.keys() <= self._registered.keys():
            self._register(list(descriptors.values()))
        self._bind()

    def _every(self) -> list[CachedState | TaskOperatorState | TaskTimers]:
        timers = [] if self._timers is None else [self._timers]
        return [*self._states, *self._operator_states, *timers]

    def _declared(self) -> dict[str, StateDescriptor]:
        return {state.descriptor.name: state.descriptor for state in self._every()}

    def _register(self, descriptors: Sequence[StateDescriptor]) -> None:
        registrations = self._spec.registrations(descriptors, self._task)
        begun: BeginResponse | None = None
        while begun is None:
            try:
                begun = self._access.begin(registrations)
            except JobError as refusal:
                judge_serializers(refusal, registrations, descriptors, self.where)
        if len(begun.states) != len(registrations):
            raise InternalError(
                f"{self.where}: {len(registrations)} states were declared, {len(begun.states)} "
                "were registered"
            )
        if self._registered is None:
            self.sealed_before = begun.sealed_before
        self._registered = {
            descriptor.name: state
            for descriptor, state in zip(descriptors, begun.states, strict=True)
        }
        self._token = begun.token
        self.batch_timestamp_ms = begun.batch_timestamp_ms
        self.watermark_ms = begun.watermark_ms or NO_WATERMARK
        self._due = begun.due

    def _bind(self) -> None:
        """Sets the registered ids and types of the states."""
        spec, task = self._spec, self._task
        assert self._registered is not None
        context = StateContext(
            current_key=self.current_key,
            table=self.keys,
            key_type=spec.key_type,
            settings=spec.settings,
            batch_id=task.batch_id,
            batch_timestamp_ms=self.batch_timestamp_ms,
            watermark_ms=self.watermark_ms,
            due=self._due,
            where=self.where,
            load=self._loader.load_chunk,
            fetch=lambda fetch: self._access.fetch([fetch])[0],
        )
        for state in self._states:
            if not state.windowed:
                state.bind(self._registered[state.descriptor.name], context)
        self._bind_windowed(context)
        if self._operator_states:
            self._bind_operator_states()
        if self._timers is not None:
            self._timers.bind(self._registered[self._timers.descriptor.name], context)

    def _bind_windowed(self, context: StateContext) -> None:
        windowed = [state for state in self._states if state.windowed]
        if not windowed:
            return
        assert self._registered is not None
        context = replace(context, current_key=self.windows.current, table=self.windows)
        for state in windowed:
            state.bind(self._registered[state.descriptor.name], context)
        self.windows.bind(windowed)

    def _bind_operator_states(self) -> None:
        assert self._registered is not None
        context = OperatorStateContext(
            where=self.where, value_bytes=self._spec.settings.value_bytes, elements=self._elements
        )
        for state in self._operator_states:
            if not state.is_bound:
                state.bind(self._registered[state.descriptor.name], context)

    def count_rows(self, batch: pa.RecordBatch, rows: InputSpec) -> None:
        """Adds a chunk of an input to the fingerprint and the row count of the seal."""
        checks = batch.column(rows.check_column).to_numpy(zero_copy_only=False)
        self._fingerprint += int(checks.view(np.uint64).sum(dtype=np.uint64))
        self._row_count += batch.num_rows

    def start_chunk(self, batch: pa.RecordBatch, rows: InputSpec) -> Slots:
        """Adds a chunk of a keyed input and prefetches the states that earlier chunks read.

        Returns the slot of each row.
        """
        self.count_rows(batch, rows)
        slots = self.keys.add_chunk(batch, rows)
        if self._key_rows is not None:
            self._key_rows.add(slots, len(self.keys))
        self._start_keys()
        return slots

    def start_page(self, page: DuePage) -> None:
        """Makes the keys of due timers the chunk, with the states that earlier chunks read."""
        self.keys.add_wire_keys([timer.wire_key for timer in page.timers])
        self._start_keys()

    def _start_keys(self) -> None:
        """Makes room for the keys of the chunk and prefetches the states that were read."""
        for state in self._states:
            state.grow(len(state.table))
        ahead = [state for state in self._states if state.was_read and not state.windowed]
        if ahead:
            self._loader.load_chunk(*ahead)

    def stored_keys(self, state: CachedState) -> Iterator[Sequence[bytes]]:
        """The wire keys with records of a state before the batch, in pages and store order."""
        key_codec = KeyCodec(self._spec.key_type)
        start, limit = b"", self._spec.settings.fetch_keys
        while True:
            fetch = StateFetch(state_id=state.state_id, scan_from=start, limit=limit)
            page = self._access.fetch([fetch])[0]
            found = page.records[0].elements
            yield list(dict.fromkeys(split_record_key(key, key_codec)[0] for key in found))
            if not page.truncated:
                return
            # The next store key.
            start = found[-1] + b"\x00"

    def add_wire_keys(self, wire_keys: Sequence[bytes]) -> Sequence[int]:
        """Makes these keys the chunk of which states are fetched; returns their slots."""
        slots = self.keys.add_wire_keys(wire_keys)
        for state in self._states:
            state.grow(len(state.table))
        return slots

    def fetch(self, state: CachedState, slots: Sequence[int]) -> None:
        """Fetches a state for these slots."""
        self._loader.fetch((state, slots))

    def changes(self) -> Changes:
        """The encoded changes and their seal. No state may be read or written after this."""
        sums = BlockSums()
        blocks: list[bytes] = []
        for state in self._every():
            changes = ChangeBlockBuilder(state.state_id, sums)
            state.write(changes)
            blocks += changes.finish()
        seal = sums.seal(
            self._token,
            fingerprint=self._fingerprint & _FINGERPRINT_BITS,
            row_count=self._row_count,
        )
        if self._key_rows is not None:
            seal.key_rows.CopyFrom(self._key_rows.most(self.keys.wire_keys))
        return Changes(blocks, seal)

    def prepare(self, changes: Changes) -> None:
        """Stages the changes under their seal."""
        try:
            self._access.prepare(changes.blocks, changes.seal)
        except SupersededError as refusal:
            if refusal.reason != Reason.ALREADY_COMMITTED:
                raise
            _log.info("%s is already committed; the replay changed no state", self.where)

    def _elements(self, state_id: int) -> Sequence[bytes]:
        """The elements of an operator state before the batch."""
        spec = self._spec
        key = subtask_key_of(self._task.subtask, spec.parallelism, spec.max_parallelism)
        fetch = StateFetch(state_id=state_id, read=ReadKind.PREFIX, keys=[key])
        return list(self._access.fetch([fetch])[0].records[0].values)
