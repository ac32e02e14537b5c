"""Reads of operator state by subtask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.state_server.queries.element_reads import (
    check_ranges,
    requested_elements,
)
from queryable_state.server.state_server.queries.key_reads import no_key_group
from queryable_state.server.state_server.stores.store_table import NOT_HERE
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import CorruptDataError, InvalidRequestError
from queryable_state.wire.operator_state import split_broadcast_element, subtask_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.server.config.limits import Limits
    from queryable_state.server.state_server.queries.key_reads import (
        AnswerFailures,
        ElementsReader,
        RecordCount,
    )
    from queryable_state.server.state_server.stores.store_table import StateRoute

_RANGE_BYTES = 4


def read_operator_state(
    route: StateRoute,
    query: query_pb2.Query,
    keys: Sequence[bytes],
    failures: AnswerFailures,
    readers: Sequence[ElementsReader | None],
    limits: Limits,
    counted: RecordCount,
) -> tuple[list[bytes], list[int]]:
    """Returns the answer for each subtask, and the positions of subtasks without elements.

    A key is a subtask key. The owner of the first key group refuses with UNKNOWN_STATE if its
    subtask has another range: the operator then runs at another parallelism.
    """
    check_ranges(route, query, len(keys))
    wanted: Sequence[bytes] = ()
    if query.read not in (query_pb2.PREFIX, query_pb2.POINT):
        wanted = requested_elements(route, query, len(keys), limits)
    uncommitted = query.consistency == query_pb2.UNCOMMITTED
    left = limits.answer_bytes
    values: list[bytes] = []
    missing: list[int] = []
    for position, key in enumerate(keys):
        slot = _slot(route, position, key)
        if slot != NOT_HERE and key != _key_of(route, slot):
            failures.add_no_subtask(position)
            continue
        read = readers[slot]
        if read is None:
            failures.add(position, slot)
            continue
        if left < 0:
            failures.add_too_large(position)
            continue
        stored = read(query.state_id, uncommitted)
        counted.count(len(stored))
        try:
            found = _records(route.registration.kind, stored)
        except CorruptDataError as problem:
            failures.add_corrupt(position, problem)
            continue
        element = wanted[position if len(wanted) > 1 else 0] if wanted else None
        value = _answer(query.read, found, element)
        if value is None:
            missing.append(position)
            continue
        left -= len(value)
        if left < 0 and values:
            failures.add_too_large(position)
            continue
        values.append(value)
    return values, missing


def _slot(route: StateRoute, position: int, key: bytes) -> int:
    """The slot of the first key group of a subtask key; `NOT_HERE` if another server owns it."""
    if len(key) != _RANGE_BYTES:
        raise InvalidRequestError(
            f"key {position} of the query ({key[:16].hex()}) is not a subtask of operator state "
            f"{route.name!r}: send its first and last key group, 2 bytes each"
        )
    try:
        slot = route.slots[(key[0] << 8) | key[1]]
    except IndexError:
        raise no_key_group(route, position, key) from None
    return slot


def _key_of(route: StateRoute, slot: int) -> bytes:
    subtask = route.subtasks[slot]
    return subtask_key(subtask.first_key_group, subtask.last_key_group)


def _records(
    kind: registration_pb2.StateKind.ValueType, elements: Sequence[bytes]
) -> query_pb2.Records:
    """The elements as records: a broadcast entry under its map key, others in list order."""
    if kind != registration_pb2.BROADCAST:
        return query_pb2.Records(elements=[b""] * len(elements), values=elements)
    entries = [split_broadcast_element(element) for element in elements]
    return query_pb2.Records(
        elements=[key for key, _ in entries], values=[value for _, value in entries]
    )


def _answer(
    read: query_pb2.ReadKind.ValueType, found: query_pb2.Records, element: bytes | None
) -> bytes | None:
    """The answer of one subtask; None if it has nothing to answer."""
    values = list(found.values)
    if element is not None:
        values = [
            value for key, value in zip(found.elements, found.values, strict=True) if key == element
        ]
    if not values:
        return None
    match read:
        case query_pb2.ENTRY:
            return values[0]
        case query_pb2.EXISTS:
            return b""
        case query_pb2.SIZE:
            return query_pb2.Size(
                elements=len(values), value_bytes=sum(map(len, values))
            ).SerializeToString()
        case _:
            return found.SerializeToString()
