"""One entry of a map, whether there is anything, and how much: without the values themselves."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from queryable_state.server.state_server.queries.key_reads import expires, no_key_group
from queryable_state.server.state_server.stores.record_cache import ABSENT
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import (
    CorruptDataError,
    InvalidRequestError,
    LimitExceededError,
    Reason,
)
from queryable_state.wire.keys.store_keys import RESULT_ELEMENT, VOID_NAMESPACE
from queryable_state.wire.values.value_codec import is_expired, read_header

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.server.settings import Limits
    from queryable_state.server.state_server.queries.answer_failures import AnswerFailures
    from queryable_state.server.state_server.queries.key_reads import (
        PrefixReader,
        Readers,
        RecordCount,
    )
    from queryable_state.server.state_server.stores.store_table import StateRoute

_COUNT = struct.Struct("<I")
_MANY_RECORDS = frozenset({registration_pb2.LIST, registration_pb2.MAP})
# Of many records the first ones tell that there is one, unless all of them have expired.
_FIRST_RECORDS = 16


def read_elements(
    route: StateRoute,
    query: query_pb2.Query,
    keys: Sequence[bytes],
    now_ms: int,
    failures: AnswerFailures,
    readers: Readers,
    limits: Limits,
    counted: RecordCount,
) -> tuple[list[bytes], list[int]]:
    """What ENTRY, EXISTS and SIZE answer for each key; and the positions of keys without any."""
    elements = _elements(route, query, len(keys), limits)
    kind = route.registration.kind
    reads: _OneRecord | _ManyRecords
    if elements or kind not in _MANY_RECORDS:
        reads = _OneRecord(readers, elements or [RESULT_ELEMENT])
    else:
        reads = _ManyRecords(query, readers.prefixes(), limits.prefix_records, counted)
    namespace = query.namespace or VOID_NAMESPACE
    judged_ms = now_ms if expires(route) else None
    slots = route.slots
    left = limits.answer_bytes
    values: list[bytes] = []
    missing: list[int] = []
    for position, key in enumerate(keys):
        try:
            slot = slots[(key[0] << 8) | key[1]]
        except IndexError:
            raise no_key_group(route, position, key) from None
        if reads.readers[slot] is None:
            failures.add(position, slot)
            continue
        try:
            found = reads.live(slot, position, key + namespace, judged_ms)
            if found is None:
                failures.add_too_large(position)
                continue
            if not found:
                missing.append(position)
                continue
            value = _answer(query.read, kind, found)
        except CorruptDataError as problem:
            failures.add_corrupt(position, problem)
            continue
        except LimitExceededError:
            failures.add_too_many_records(position, limits.prefix_records)
            continue
        left -= len(value)
        if left < 0:
            failures.add_too_large(position)
            continue
        values.append(value)
    return values, missing


class _OneRecord:
    """Reads the record under each key's element, or under the only one given."""

    def __init__(self, readers: Readers, elements: Sequence[bytes]) -> None:
        self.readers = readers.points()
        self._records = readers.records
        self._elements = elements

    def live(
        self, slot: int, position: int, prefix: bytes, judged_ms: int | None
    ) -> list[bytes] | None:
        read, elements = self.readers[slot], self._elements
        assert read is not None
        key, records = prefix + elements[position if len(elements) > 1 else 0], self._records
        value = None if records is None else records.get(key)
        if value is None:
            value = read(key)
            if records is not None:
                records.keep(key, ABSENT if value is None else value)
        return _live([value], judged_ms) if value else []


class _ManyRecords:
    """Reads all records under each key, as many of all keys together as a query may read."""

    def __init__(
        self,
        query: query_pb2.Query,
        readers: list[PrefixReader | None],
        most: int,
        counted: RecordCount,
    ) -> None:
        self.readers = readers
        self._counted = counted
        self._state_id = query.state_id
        self._uncommitted = query.consistency == query_pb2.UNCOMMITTED
        self._one_will_do = query.read == query_pb2.EXISTS
        self._most = self._left = most

    def live(
        self, slot: int, _position: int, prefix: bytes, judged_ms: int | None
    ) -> list[bytes] | None:
        """None where other keys have used up what a query may read; LimitExceededError where
        this one alone has more."""
        if self._left <= 0:
            return None
        read = self.readers[slot]
        assert read is not None
        if self._one_will_do:
            records = read(self._state_id, prefix, self._uncommitted, _FIRST_RECORDS)
            self._left -= 1
            found = _live([value for _, value in records], judged_ms)
            if found or len(records) < _FIRST_RECORDS:
                return found
        records = read(
            self._state_id, prefix, self._uncommitted, self._counted.next_limit(self._most + 1)
        )
        self._counted.count(len(records))
        self._left -= len(records)
        found = _live([value for _, value in records], judged_ms)
        if len(records) > self._most and not (found and self._one_will_do):
            raise LimitExceededError("more records under a key than a query may read")
        return found


def _live(values: list[bytes], judged_ms: int | None) -> list[bytes]:
    """The values that have not expired; None: none ever counts as expired."""
    if judged_ms is None:
        return values
    return [value for value in values if not is_expired(value, judged_ms)]


def _answer(
    read: query_pb2.ReadKind.ValueType,
    kind: registration_pb2.StateKind.ValueType,
    found: list[bytes],
) -> bytes:
    """What stands in the answer for the records found under a key, at least one."""
    if read == query_pb2.ENTRY:
        return found[0]
    if read == query_pb2.EXISTS:
        return b""
    return query_pb2.Size(
        elements=sum(map(_list_length, found)) if kind == registration_pb2.LIST else len(found),
        value_bytes=sum(map(len, found)),
    ).SerializeToString()


def _list_length(chunk: bytes) -> int:
    """The elements of a list's chunk, by its own count."""
    try:
        count: int = _COUNT.unpack_from(chunk, read_header(chunk).payload_offset)[0]
    except struct.error:
        raise CorruptDataError(f"a list chunk of {len(chunk)} bytes ends in its count") from None
    return count


def _elements(
    route: StateRoute, query: query_pb2.Query, keys: int, limits: Limits
) -> Sequence[bytes]:
    """The elements asked for: none, one for all keys, or one each."""
    state = route.registration
    if query.read not in (query_pb2.ENTRY, query_pb2.EXISTS, query_pb2.SIZE):
        raise InvalidRequestError(
            f"read kind {query.read} is not known here: ask for one that ReadKind has",
            reason=Reason.UNSUPPORTED,
        )
    elements = query.elements
    if query.read == query_pb2.SIZE:
        if elements:
            raise InvalidRequestError("SIZE is of all there is under a key: give no elements")
        return ()
    if query.read == query_pb2.ENTRY and not elements:
        raise InvalidRequestError("ENTRY wants the encoded map key: one for all keys, or one each")
    if not elements:
        return ()
    if state.kind != registration_pb2.MAP:
        raise InvalidRequestError(
            f"state {route.name!r} is of kind {registration_pb2.StateKind.Name(state.kind)}: only "
            "a MAP has entries; read its whole value",
            reason=Reason.UNSUPPORTED,
        )
    if len(elements) not in (1, keys):
        raise InvalidRequestError(
            f"{len(elements)} elements for {keys} keys: give one for all keys, or one each"
        )
    longest = max(map(len, elements))
    if longest > limits.key_bytes:
        raise LimitExceededError(
            f"an encoded map key has {longest} bytes, {limits.key_bytes} allowed"
        )
    return elements
