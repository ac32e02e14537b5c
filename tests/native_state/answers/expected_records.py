"""Spark's answers as records of the states that are served."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.native_state.answers.records import Record

from queryable_state.wire.schema.type_model import Kind

if TYPE_CHECKING:
    from queryable_state.server.native_state.operators.state_layout import StateDefinition

Row = dict[str, Any]

_NO_KEY = [0]
_VALUE_NAMES = ("value", "single_value", "list_element")


def answer_name(state: StateDefinition) -> str:
    """The name of Spark's answer for a state."""
    name = state.name or "default"
    if state.operator == "join":
        # The answer for a side as a whole leaves out the flag `matched`.
        name += "-keyWithTsToValues" if state.format.endswith("4") else "-keyWithIndexToValue"
    return f"{state.operator_id}.{name}"


def expected_records(rows: list[Row], state: StateDefinition, batch_time_ms: int) -> list[Record]:
    """The records of one state, from the rows of Spark's reader.

    `batch_time_ms` is the time of the batch, by which values expire.
    """
    make = {
        "aggregation": _aggregate,
        "sessions": _session,
        "deduplication": _seen,
        "join": _joined,
        "groups": _group,
        "limit": _count,
    }.get(state.operator, _variable)
    records = [make(state, row) for row in rows]
    if state.key_type.kind == Kind.ROW:
        # A key of one column that is a struct is that struct.
        records = [
            record._replace(key=record.key[0]) if _is_one_struct(record.key) else record
            for record in records
        ]
    if not state.has_ttl:
        return records
    return [
        record._replace(value=record.value[0])
        for record in records
        if record.value[1] > batch_time_ms
    ]


def _is_one_struct(key: list[Any]) -> bool:
    return len(key) == 1 and (key[0] is None or isinstance(key[0], list))


def _aggregate(state: StateDefinition, row: Row) -> Record:
    key = row["key"] or _NO_KEY
    # Format 1 stores the key in the value, too.
    value = row["value"][len(row["key"]) :] if state.format.endswith("1") else row["value"]
    return Record(row["partition_id"], key, None, None, value)


def _session(state: StateDefinition, row: Row) -> Record:
    columns = len(row["key"]) - 1
    start, end = row["value"][columns]
    window = (start, end)
    return Record(row["partition_id"], row["key"][:-1], window, None, row["value"][columns:])


def _seen(state: StateDefinition, row: Row) -> Record:
    value = row["value"] if "within" in state.spark_name.lower() else True
    return Record(row["partition_id"], row["key"], None, None, value)


def _joined(state: StateDefinition, row: Row) -> Record:
    # Behind the key is the index of the row, or its event time.
    return Record(row["partition_id"], row["key"][:-1], None, None, row["value"])


def _group(state: StateDefinition, row: Row) -> Record:
    value = row["value"]
    if state.format.endswith("2"):
        value = [*(value[0] or ()), *value[1:]]
    return Record(row["partition_id"], row["key"], None, None, value)


def _count(state: StateDefinition, row: Row) -> Record:
    return Record(row["partition_id"], _NO_KEY, None, None, row["value"][0])


def _variable(state: StateDefinition, row: Row) -> Record:
    if "expiration_timestamp_ms" in row:
        element = row["expiration_timestamp_ms"]
        return Record(row["partition_id"], row["key"], None, element, None)
    if "user_map_key" in row:
        return Record(
            row["partition_id"], row["key"], None, row["user_map_key"], row["user_map_value"]
        )
    (value,) = (row[name] for name in _VALUE_NAMES if name in row)
    return Record(row["partition_id"], row["key"], None, None, value)
