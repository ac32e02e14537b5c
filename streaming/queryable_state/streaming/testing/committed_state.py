"""Decoding of the committed state of an operator in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming.runtime.pickling import pickled
from queryable_state.streaming.runtime.timers.timer_descriptor import TIMERS_NAME
from queryable_state.v1.registration_pb2 import StateKind
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.keys.store_keys import (
    ACCUMULATOR_ELEMENT,
    RESULT_ELEMENT,
    VOID_NAMESPACE,
    split_record_key,
)
from queryable_state.wire.keys.time_window import TimeWindow
from queryable_state.wire.keys.timer_keys import ELEMENT_BYTES, timer_of
from queryable_state.wire.operator_state import OPERATOR_KINDS, split_broadcast_element
from queryable_state.wire.schema.types import TypeInfo
from queryable_state.wire.state_codecs import StateCodecs
from queryable_state.wire.values.lifetime import gone_ms
from queryable_state.wire.values.value_codec import ValueCodec, is_stale

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.streaming.runtime.states.state_spec import StateSpec
    from queryable_state.streaming.testing.in_memory_state import InMemoryStateBackend
    from queryable_state.v1.registration_pb2 import StateRegistration
    from queryable_state.wire.keys.key_groups import KeyGroups
    from queryable_state.wire.keys.timer_keys import Clock


class CommittedState:
    """The committed state of one operator, as queries at the time of the last batch see it."""

    def __init__(self, backend: InMemoryStateBackend, spec: StateSpec) -> None:
        self._backend = backend
        self._spec = spec

    def of_key(self, name: str, key: Any, key_groups: KeyGroups) -> Any:
        """The state of a key: a list for a list state, a dict for a map state; None if there is
        none."""
        state = self._keyed(name)
        prefix = key_groups.wire_key(key) + VOID_NAMESPACE
        found = [
            (record[len(prefix) :], value)
            for subtask in range(self._spec.parallelism)
            for record, value in self._live(state, subtask, prefix)
        ]
        return _whole_value(state, found)

    def of_all_keys(self, name: str) -> dict[Any, Any]:
        """The state of every key that has one. A key of several columns is a tuple."""
        state = self._keyed(name)
        codec = KeyCodec(self._spec.key_type)
        found: dict[bytes, list[tuple[bytes, bytes]]] = {}
        for subtask in range(self._spec.parallelism):
            for record, value in self._live(state, subtask, b""):
                wire_key, _, element = split_record_key(record, codec)
                found.setdefault(wire_key, []).append((element, value))
        return {
            codec.decode_all(wire_key[2:]): _whole_value(state, records)
            for wire_key, records in found.items()
        }

    def of_all_windows(self, name: str) -> dict[tuple[Any, TimeWindow], Any]:
        """The state of every key and time window that has one."""
        state = self._keyed(name)
        codec = KeyCodec(self._spec.key_type)
        found: dict[tuple[bytes, bytes], list[tuple[bytes, bytes]]] = {}
        for subtask in range(self._spec.parallelism):
            for record, value in self._live(state, subtask, b""):
                wire_key, namespace, element = split_record_key(record, codec)
                found.setdefault((wire_key, namespace), []).append((element, value))
        return {
            (codec.decode_all(wire_key[2:]), TimeWindow.of_namespace(namespace)): _whole_value(
                state, records
            )
            for (wire_key, namespace), records in found.items()
        }

    def of_subtask(self, name: str, subtask: int) -> Any:
        """An operator state of a subtask: a list, or a dict of a broadcast state."""
        state = self._backend.registration(self._spec.uid, name)
        if state.kind not in OPERATOR_KINDS:
            raise InvalidRequestError(f"{name!r} is a keyed state: read it with state(name, key)")
        codecs = StateCodecs(state, pickler=pickled, unpickle=True)
        elements = self._backend.operator_state(self._spec.uid, subtask, name)
        if state.kind != StateKind.BROADCAST:
            return codecs.decode_records((), elements)
        entries = list(map(split_broadcast_element, elements))
        return codecs.decode_records([key for key, _ in entries], [value for _, value in entries])

    def timer_count(self, clock: Clock) -> int:
        """The number of pending timers of a clock; 0 for an operator without timers."""
        if not self._backend.has_state(self._spec.uid, TIMERS_NAME):
            return 0
        return sum(
            timer_of(key[-ELEMENT_BYTES:])[0] == clock
            for subtask in range(self._spec.parallelism)
            for key, _ in self._backend.records(self._spec.uid, subtask, TIMERS_NAME)
        )

    def _keyed(self, name: str) -> StateRegistration:
        state = self._backend.registration(self._spec.uid, name)
        if state.kind in OPERATOR_KINDS:
            raise InvalidRequestError(
                f"{name!r} is an operator state: read it with operator_state(name, subtask)"
            )
        return state

    def _live(
        self, state: StateRegistration, subtask: int, prefix: bytes
    ) -> list[tuple[bytes, bytes]]:
        """The records that have not expired, or that readers see although they have."""
        found = self._backend.records(self._spec.uid, subtask, state.state_name, prefix)
        end_ms = gone_ms(state, self._backend.timestamp_ms)
        if end_ms is None:
            return found
        return [(key, value) for key, value in found if not is_stale(value, end_ms)]


def _whole_value(state: StateRegistration, records: Sequence[tuple[bytes, bytes]]) -> Any:
    """Decodes the records of a key; an aggregate without a result is its accumulator."""
    found = dict(records)
    if state.kind == StateKind.AGGREGATING and not state.value_types:
        info = TypeInfo.from_proto(state.accumulator_types[-1].type)
        data = found.get(ACCUMULATOR_ELEMENT)
        return None if data is None else ValueCodec.of(info, unpickle=True).decode(data)
    codecs = StateCodecs(state, pickler=pickled, unpickle=True)
    if state.kind not in (StateKind.LIST, StateKind.MAP):
        data = found.get(RESULT_ELEMENT)
        return None if data is None else codecs.value.decode(data)
    return codecs.decode_records(list(found), list(found.values()))
