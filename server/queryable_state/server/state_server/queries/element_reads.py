"""Reads of map entries, slices of lists, presence and sizes, without whole values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.state_server.queries.key_reads import (
    MANY_RECORDS,
    gone_at,
    no_key_group,
    prefix_namespace,
)
from queryable_state.server.state_server.stores.record_cache import ABSENT
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import (
    CorruptDataError,
    InvalidRequestError,
    LimitExceededError,
    Reason,
)
from queryable_state.wire.keys.store_keys import RESULT_ELEMENT
from queryable_state.wire.schema.type_model import TypeInfo
from queryable_state.wire.values.lifetime import remaining_ms
from queryable_state.wire.values.list_elements import cut, element_count, has_fixed_width
from queryable_state.wire.values.value_codec import is_stale, read_header

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.server.config.limits import Limits
    from queryable_state.server.state_server.queries.key_reads import (
        AnswerFailures,
        PrefixReader,
        Readers,
        RecordCount,
    )
    from queryable_state.server.state_server.stores.store_table import StateRoute
    from queryable_state.v1.registration_pb2 import StateRegistration

_HAVE_ENTRIES = frozenset({registration_pb2.MAP, registration_pb2.BROADCAST})
_READS = frozenset({query_pb2.ENTRY, query_pb2.EXISTS, query_pb2.SIZE, query_pb2.SLICE})
# EXISTS reads the first records of a key; more are needed only if all of these have expired.
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
    """Returns the answers of ENTRY, SLICE, EXISTS or SIZE, and the positions of absent keys."""
    elements = requested_elements(route, query, len(keys), limits)
    check_ranges(route, query, len(keys))
    kind = route.registration.kind
    slices = None
    if query.read == query_pb2.SLICE:
        slices = ListSlices(route.registration, query.ranges, counted)
    reads: _OneRecord | _ManyRecords
    if elements or kind not in MANY_RECORDS:
        reads = _OneRecord(readers, elements or [RESULT_ELEMENT])
    else:
        reads = _ManyRecords(query, readers.prefixes(), limits.prefix_records, counted)
    namespace = prefix_namespace(route, query)
    gone_ms = gone_at(route, now_ms)
    info = query_pb2.ReadInfo(read_time_ms=now_ms, ttl_ms=route.registration.ttl.ttl_ms)
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
            found = reads.live(slot, position, key + namespace, gone_ms)
            if found is None:
                failures.add_too_large(position)
                continue
            if not found:
                missing.append(position)
                continue
            if slices is None:
                value = _answer(query.read, kind, found, elements, info)
            else:
                value = slices.answer(position, found)
        except CorruptDataError as problem:
            failures.add_corrupt(position, problem)
            continue
        except LimitExceededError:
            failures.add_too_many_records(position, limits.prefix_records)
            continue
        left -= len(value)
        if left < 0 and values:
            failures.add_too_large(position)
            continue
        values.append(value)
    return values, missing


class _OneRecord:
    """Reads one record for each key: that of its own element, or of one element for all."""

    def __init__(self, readers: Readers, elements: Sequence[bytes]) -> None:
        self.readers = readers.points()
        self._records = readers.records
        self._elements = elements

    def live(
        self, slot: int, position: int, prefix: bytes, gone_ms: int | None
    ) -> list[bytes] | None:
        read, elements = self.readers[slot], self._elements
        assert read is not None
        key, records = prefix + elements[position if len(elements) > 1 else 0], self._records
        value = None if records is None else records.get(key)
        if value is None:
            value = read(key)
            if records is not None:
                records.keep(key, ABSENT if value is None else value)
        return _live([value], gone_ms) if value else []


class _ManyRecords:
    """Reads all records of each key, within the limit for all keys of a query together."""

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
        self, slot: int, _position: int, prefix: bytes, gone_ms: int | None
    ) -> list[bytes] | None:
        """Returns None if other keys have used up the limit.

        Raises `LimitExceededError` if this key alone exceeds it.
        """
        if self._left <= 0:
            return None
        read = self.readers[slot]
        assert read is not None
        if self._one_will_do:
            records = read(self._state_id, prefix, self._uncommitted, _FIRST_RECORDS)
            self._left -= 1
            found = _live([value for _, value in records], gone_ms)
            if found or len(records) < _FIRST_RECORDS:
                return found
        records = read(
            self._state_id, prefix, self._uncommitted, self._counted.next_limit(self._most + 1)
        )
        self._counted.count(len(records))
        self._left -= len(records)
        found = _live([value for _, value in records], gone_ms)
        if len(records) > self._most and not (found and self._one_will_do):
            raise LimitExceededError("the key has more records than a query may read")
        return found


def _live(values: list[bytes], gone_ms: int | None) -> list[bytes]:
    """Returns the values that were updated after `gone_ms`; None: values never expire."""
    if gone_ms is None:
        return values
    return [value for value in values if not is_stale(value, gone_ms)]


def _answer(
    read: query_pb2.ReadKind.ValueType,
    kind: registration_pb2.StateKind.ValueType,
    found: list[bytes],
    elements: Sequence[bytes],
    info: query_pb2.ReadInfo,
) -> bytes:
    """Returns the answer for the records of a key, at least one."""
    if read == query_pb2.ENTRY:
        return found[0]
    if read == query_pb2.EXISTS:
        # Not all records of a whole LIST or MAP were read.
        is_whole = elements or kind not in MANY_RECORDS
        remaining = remaining_ms(found, info) if is_whole else None
        return query_pb2.Presence(remaining_ms=remaining).SerializeToString()
    return query_pb2.Size(
        elements=sum(map(element_count, found)) if kind == registration_pb2.LIST else len(found),
        value_bytes=sum(map(len, found)),
        remaining_ms=remaining_ms(found, info),
    ).SerializeToString()


def requested_elements(
    route: StateRoute, query: query_pb2.Query, keys: int, limits: Limits
) -> Sequence[bytes]:
    """Returns the requested elements: none, one for all keys, or one for each key."""
    state = route.registration
    if query.read not in _READS:
        raise InvalidRequestError(
            f"read kind {query.read} is unknown to this server: use a value of ReadKind",
            reason=Reason.UNSUPPORTED,
        )
    elements = query.elements
    if query.read in (query_pb2.SIZE, query_pb2.SLICE):
        if elements:
            raise InvalidRequestError(
                f"{query_pb2.ReadKind.Name(query.read)} reads the records of a whole key: pass no "
                "elements"
            )
        return ()
    if query.read == query_pb2.ENTRY and not elements:
        raise InvalidRequestError(
            "ENTRY needs encoded map keys in `elements`: one for all keys, or one for each key"
        )
    if not elements:
        return ()
    if state.kind not in _HAVE_ENTRIES:
        raise InvalidRequestError(
            f"state {route.name!r} is of kind {registration_pb2.StateKind.Name(state.kind)}: only "
            "a MAP or BROADCAST has entries; read its whole value",
            reason=Reason.UNSUPPORTED,
        )
    if len(elements) not in (1, keys):
        raise InvalidRequestError(
            f"{len(elements)} elements for {keys} keys: pass one for all keys, or one for each key"
        )
    longest = max(map(len, elements))
    if longest > limits.key_bytes:
        raise LimitExceededError(
            f"an encoded map key has {longest} bytes, {limits.key_bytes} allowed"
        )
    return elements


def check_ranges(route: StateRoute, query: query_pb2.Query, keys: int) -> None:
    """Raises unless the query slices a list and has a range for each key, or none has ranges."""
    ranges = len(query.ranges)
    if query.read != query_pb2.SLICE:
        if ranges:
            raise InvalidRequestError("`ranges` are for SLICE: say so in `read`, or pass none")
        return
    if route.registration.kind != registration_pb2.LIST:
        raise InvalidRequestError(
            f"state {route.name!r} is of kind "
            f"{registration_pb2.StateKind.Name(route.registration.kind)}: only a LIST has slices; "
            "read its whole value",
            reason=Reason.UNSUPPORTED,
        )
    if ranges not in (0, 1, keys):
        raise InvalidRequestError(
            f"{ranges} ranges for {keys} keys: pass one for all keys, or one for each key"
        )


_ALL = query_pb2.ListRange()


class ListSlices:
    """Answers of SLICE for the lists of one query.

    Elements of variable width are decoded, to find where those of a slice begin and end in their
    chunks; others are not.
    """

    def __init__(
        self,
        state: StateRegistration,
        ranges: Sequence[query_pb2.ListRange],
        counted: RecordCount,
    ) -> None:
        self._state = state
        self._ranges = ranges or (_ALL,)
        self._counted = counted

    def answer(self, position: int, chunks: Sequence[bytes]) -> bytes:
        """Returns the slice for the key at `position`, of all live chunks of its list."""
        wanted = self._ranges[position if len(self._ranges) > 1 else 0]
        lengths = list(map(element_count, chunks))
        length = sum(lengths)
        start = wanted.start if wanted.start >= 0 else max(0, length + wanted.start)
        start = min(start, length)
        end = min(length, start + wanted.limit) if wanted.limit else length
        answer = query_pb2.ListSlice(start=start, limit=wanted.limit, length=length)
        begin = 0
        for chunk, count in zip(chunks, lengths, strict=True):
            first, last = max(0, start - begin), min(count, end - begin)
            begin += count
            if first < last:
                whole = (first, last) == (0, count)
                answer.chunks.append(chunk if whole else self._cut(chunk, first, last))
        return answer.SerializeToString()

    def _cut(self, chunk: bytes, first: int, last: int) -> bytes:
        version = read_header(chunk).schema_version
        for known in self._state.value_types:
            if known.version == version:
                element = TypeInfo.from_proto(known.type)
                if not has_fixed_width(element):
                    # Elements that are decoded count as records: many of them take as long.
                    self._counted.count(last)
                return cut(chunk, first, last, element)
        raise CorruptDataError(f"a list chunk has the unknown schema version {version}")
