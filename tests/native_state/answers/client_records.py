"""Records of a served state, read by the client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.native_state.answers.records import Record, plain

from queryable_state.v1 import registration_pb2
from queryable_state.wire.schema.type_model import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.client import KvState
    from queryable_state.client.blocking import QueryableStateClient
    from queryable_state.server.native_state.operators.state_layout import StateDefinition

ANY_PARTITION = -1
"""In place of the partition, which clients do not see."""


def scanned_records(
    client: QueryableStateClient, job: str, state: StateDefinition, **options: Any
) -> tuple[list[Record], int]:
    """All records of a state, by one scan, and the batch they are of."""
    with client.scan(job, state.queryable_name, **options) as scan:
        found = [
            record
            for key, value in scan
            if value is not None
            for record in records_of(state, key, value)
        ]
        assert scan.info is not None
        return found, scan.info.version


def records_of(state: StateDefinition, key: Any, value: KvState) -> Iterator[Record]:
    """The records of one key, or of one of its windows."""
    window = None
    if state.namespace_type is not None:
        key, time_window = key
        window = (time_window.start_us, time_window.end_us)
    columns = plain(key) if state.key_type.kind == Kind.ROW else [plain(key)]
    is_row = state.value_type is not None and state.value_type.kind == Kind.ROW

    def whole(item: Any) -> Any:
        item = plain(item)
        return [item] if state.operator == "transformWithState" and not is_row else item

    if state.kind == registration_pb2.LIST:
        for item in value.get():
            yield Record(ANY_PARTITION, columns, window, None, whole(item))
    elif state.kind == registration_pb2.MAP:
        assert state.map_key_type is not None
        for map_key, item in value.items():
            element = plain(map_key)
            if state.map_key_type.kind != Kind.ROW:
                element = [element]
            yield Record(ANY_PARTITION, columns, window, element, whole(item))
    elif state.kind == registration_pb2.TIMER:
        for timer in value.get():
            yield Record(ANY_PARTITION, columns, window, timer.timestamp_ms, None)
    else:
        yield Record(ANY_PARTITION, columns, window, None, whole(value.value()))


def looked_up_records(
    client: QueryableStateClient, job: str, state: StateDefinition
) -> list[Record]:
    """The same records, each key looked up on its own after a scan of the keys."""
    with client.scan(job, state.queryable_name, keys_only=True) as scan:
        keys = [key for key, _ in scan]
    found: list[Record] = []
    for key in keys:
        window = None
        if state.namespace_type is not None:
            key, window = key
        value = client.get_kv_state(job, state.queryable_name, key, window=window)
        found += records_of(state, key if window is None else (key, window), value)
    return found
