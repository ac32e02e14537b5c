"""Changes of a test job's batch as change blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from queryable_state.v1 import registration_pb2
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE, list_element, record_key
from queryable_state.wire.keys.timer_keys import timer_element
from queryable_state.wire.operator_state import broadcast_element

if TYPE_CHECKING:
    from collections.abc import Mapping

    from queryable_state.wire.changes import ChangeBlockBuilder
    from queryable_state.wire.keys.time_window import TimeWindow
    from queryable_state.wire.state_codecs import StateCodecs

NULL: Final = object()
"""A null as the value of a map entry."""


@dataclass(frozen=True)
class ReplaceList:
    """Elements that replace those of a list."""

    elements: list[Any]


@dataclass(frozen=True)
class Windows:
    """Changes of a key of a state with windows, by window; None: timers outside of windows."""

    by_window: Mapping[TimeWindow, Any] | Mapping[TimeWindow | None, Any]


def operator_elements(written: Any, codecs: StateCodecs) -> list[bytes]:
    """The elements of an operator state, from a list, or a dict of broadcast entries."""
    if codecs.map_key is None:
        return list(map(codecs.value.encode, written))
    return [
        broadcast_element(codecs.map_key.encode(key), codecs.value.encode(value))
        for key, value in written.items()
    ]


def put_changes(
    builder: ChangeBlockBuilder,
    wire_key: bytes,
    value: Any,
    codecs: StateCodecs,
    batch_id: int,
    updated_ms: int | None = None,
    namespace: bytes = VOID_NAMESPACE,
) -> None:
    """Adds the changes of one key, as `InProcessJob.run` takes them."""
    if isinstance(value, Windows):
        for window, changes in value.by_window.items():
            within = VOID_NAMESPACE if window is None else window.namespace
            put_changes(builder, wire_key, changes, codecs, batch_id, updated_ms, within)
        return
    record = record_key(wire_key, namespace, b"")
    if value is None or isinstance(value, ReplaceList):
        builder.clear_prefix(record)
        value = None if value is None else value.elements
    if value is None:
        return
    if codecs.kind == registration_pb2.TIMER:
        for (clock, timestamp_ms), registered in value.items():
            key = record + timer_element(clock, timestamp_ms)
            if registered:
                builder.put(key, b"")
            else:
                builder.delete(key)
        return
    if codecs.map_key is None:
        is_list = codecs.kind == registration_pb2.LIST
        element = list_element(batch_id, 0) if is_list else b""
        builder.put(record + element, codecs.value.encode(value, updated_ms))
        return
    codec = codecs.value
    for entry, item in value.items():
        key = record + codecs.map_key.encode(entry)
        if item is None:
            builder.delete(key)
        else:
            builder.put(key, codec.null if item is NULL else codec.encode(item, updated_ms))
