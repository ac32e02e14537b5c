"""Records of a state as plain values, as Spark's answers in the fixtures have them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from queryable_state.v1 import registration_pb2
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.keys.store_keys import micros_of_window, namespace_end
from queryable_state.wire.keys.timer_keys import timer_of
from queryable_state.wire.schema.type_model import Kind, TypeInfo
from queryable_state.wire.values.value_codec import ValueCodec

if TYPE_CHECKING:
    from tests.native_state.operators.state_fixture import RawPartition, StateFixture

    from queryable_state.server.native_state.operators.state_layout import StateLayout

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Decoded(NamedTuple):
    """One record of a state."""

    partition: int
    key: list[Any]
    """The grouping columns."""
    window: tuple[int, int] | None
    element: Any
    """The key of a map's entry, or clock and time of a timer."""
    value: Any


def scanned(fixture: StateFixture, name: str, time_ms: int | None = None) -> list[Decoded]:
    """All records of a state."""
    layout = fixture.layouts[name]
    return [
        record
        for partition, raw in enumerate(fixture.partitions(layout, time_ms))
        for record in _of_partition(layout, partition, raw)
    ]


def _of_partition(layout: StateLayout, partition: int, raw: RawPartition) -> list[Decoded]:
    definition = layout.definition
    key_codec = KeyCodec(definition.key_type)
    value_type = definition.value_type
    is_list = definition.kind == registration_pb2.LIST
    values = None
    if value_type is not None:
        values = ValueCodec.of(TypeInfo(Kind.LIST, element=value_type) if is_list else value_type)
    found = []
    for record_key, data in layout.scan(raw, partition):
        key, key_end = key_codec.decode(record_key, 2)
        end = namespace_end(record_key, key_end)
        element: Any = record_key[end:]
        if definition.map_key_type is not None:
            element = plain(KeyCodec(definition.map_key_type).decode_all(element))
        elif definition.kind == registration_pb2.TIMER:
            element = timer_of(element)
        value = None if values is None else plain(values.decode(data))
        found.append(
            Decoded(
                int.from_bytes(record_key[:2]),
                plain(key) if definition.key_type.kind == Kind.ROW else [plain(key)],
                micros_of_window(record_key[key_end:end]),
                element,
                value[0] if value is not None and is_list else value,
            )
        )
    return found


def plain(value: Any) -> Any:
    """A value in the form of the fixtures: times in microseconds, dates in days, floats as text."""
    if isinstance(value, datetime):
        return (value - _EPOCH) // timedelta(microseconds=1)
    if isinstance(value, date):
        return (value - _EPOCH.date()).days
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple | list):
        return [plain(each) for each in value]
    return value
