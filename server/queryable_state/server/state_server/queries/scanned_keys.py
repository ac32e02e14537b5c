"""The keys of a range with their records, read from views of one version. Bulk thread only."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from queryable_state.server.storage.key_order import prefix_end
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import CorruptDataError, LimitExceededError
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.keys.store_keys import RESULT_ELEMENT
from queryable_state.wire.schema.types import TypeInfo
from queryable_state.wire.values.value_codec import is_expired

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from queryable_state.server.query.scan_query import ScanQuery
    from queryable_state.server.settings import Limits
    from queryable_state.server.storage.store import StateView
    from queryable_state.wire.errors import QueryableStateError

_MANY_RECORDS = frozenset({registration_pb2.LIST, registration_pb2.MAP})
_NO_ELEMENT = (RESULT_ELEMENT,)
_PAGE_KEYS = 512
_PAGE_BYTES = 256 * 1024
# Records looked at, whether they give keys or not, before others get the thread.
_PAGE_RECORDS = 4096
# What it takes to begin a range, in records.
_RANGE_RECORDS = 16


class RecordRange(NamedTuple):
    """Consecutive records of one store: start <= store key < end."""

    slot: int
    start: bytes
    end: bytes


class Page(NamedTuple):
    """What one message holds."""

    keys: list[query_pb2.ScannedKey]
    last: bool
    """Nothing more will come."""

    cut_off: bool
    """There is more, beyond the limit."""

    whole: bool
    """No key up to here lacks its records."""


def record_ranges(query: ScanQuery, slots: Sequence[int]) -> Iterator[RecordRange]:
    """What a scan reads, in order: as few ranges as there can be.

    With a start or an end each key group is a range of its own.
    """
    whole = not query.start and query.end is None
    for run in query.runs:
        group = max(run.first, query.first_open_group)
        while group <= run.last:
            upto = group
            if whole:
                while upto < run.last and slots[upto + 1] == slots[group]:
                    upto += 1
            first = group.to_bytes(2, "big")
            start = first + query.start
            end = (upto + 1).to_bytes(2, "big") if query.end is None else first + query.end
            if query.after[:2] == first:
                # No key begins with another one, so this is the first record of any later key.
                start = max(start, prefix_end(query.after) or end)
            if start < end:
                yield RecordRange(slots[group], start, end)
            group = upto + 1


class ScannedKeys:
    """Turns the records of ranges into keys, a page at a time.

    A key's records are kept together: one that has more than fits in an answer says so in their
    place. For keys only there is no such limit.
    """

    def __init__(
        self,
        query: ScanQuery,
        registration: registration_pb2.StateRegistration,
        views: Sequence[StateView | None],
        ranges: Sequence[RecordRange],
        now_ms: int,
        limits: Limits,
    ) -> None:
        self._query = query
        self._codec = KeyCodec(TypeInfo.from_proto(registration.key_type))
        self._judged_ms = None if registration.ttl.return_expired else now_ms
        self._views = views
        self._ranges = ranges
        self._limits = limits
        self._left = query.limit or -1
        self._looked_at = 0
        self._whole = True
        many_records = registration.kind in _MANY_RECORDS
        self._keys = self._keys_of_many() if many_records else self._keys_of_one()

    def page(self) -> Page:
        """The next keys; an empty page where only records without a key were met."""
        page: list[query_pb2.ScannedKey] = []
        size_bytes = self._looked_at = 0
        for key in self._keys:
            if key is None:
                return Page(page, last=False, cut_off=False, whole=self._whole)
            if not self._left:
                return Page(page, last=True, cut_off=True, whole=self._whole)
            self._left -= 1
            page.append(key)
            size_bytes += key.ByteSize()
            if len(page) >= _PAGE_KEYS or size_bytes >= _PAGE_BYTES:
                return Page(page, last=False, cut_off=False, whole=self._whole)
        return Page(page, last=True, cut_off=False, whole=self._whole)

    def _keys_of_one(self) -> Iterator[query_pb2.ScannedKey | None]:
        """Every key of a state with one value each; None in between where it is time for others."""
        namespace, keys_only = self._query.namespace, self._query.keys_only
        decode, judged_ms = self._codec.decode, self._judged_ms
        for records in self._records():
            if self._looked_at > _PAGE_RECORDS:
                yield None
            for record_key, value in records:
                self._looked_at += 1
                if self._looked_at > _PAGE_RECORDS:
                    yield None
                key_end = decode(record_key, 2)[1]
                # Nothing behind the namespace: an accumulator has its element there.
                if record_key[key_end:] != namespace:
                    continue
                try:
                    if judged_ms is not None and is_expired(value, judged_ms):
                        continue
                except CorruptDataError as problem:
                    yield self._refused(record_key[:key_end], problem)
                    continue
                yield query_pb2.ScannedKey(
                    key=record_key[:key_end],
                    records=None
                    if keys_only
                    else query_pb2.Records(elements=_NO_ELEMENT, values=(value,)),
                )

    def _keys_of_many(self) -> Iterator[query_pb2.ScannedKey | None]:
        """Every key of a list or map; None in between where it is time for others."""
        keys_only = self._query.keys_only
        for records in self._records():
            if self._looked_at > _PAGE_RECORDS:
                yield None
            current = _Key(b"")
            prefix = b""
            for record_key, value in records:
                if not prefix or not record_key.startswith(current.wire_key):
                    if current.found:
                        yield self._scanned(current)
                    current = _Key(record_key[: self._codec.decode(record_key, 2)[1]])
                    prefix = current.wire_key + self._query.namespace
                self._looked_at += 1
                if self._looked_at > _PAGE_RECORDS:
                    yield None
                if not record_key.startswith(prefix):
                    continue
                try:
                    if self._judged_ms is not None and is_expired(value, self._judged_ms):
                        continue
                except CorruptDataError as problem:
                    current.refuse(problem)
                    continue
                if keys_only:
                    current.found = True
                else:
                    current.add(record_key[len(prefix) :], value, self._limits)
            if current.found:
                yield self._scanned(current)

    def _scanned(self, key: _Key) -> query_pb2.ScannedKey:
        """What is answered of a key of many records."""
        if key.problem is not None:
            return self._refused(key.wire_key, key.problem)
        if self._query.keys_only:
            return query_pb2.ScannedKey(key=key.wire_key)
        return query_pb2.ScannedKey(key=key.wire_key, records=key.records())

    def _refused(self, wire_key: bytes, problem: QueryableStateError) -> query_pb2.ScannedKey:
        self._whole = False
        return query_pb2.ScannedKey(key=wire_key, error=problem.to_proto())

    def _records(self) -> Iterator[Iterator[tuple[bytes, bytes]]]:
        """The records of each range; no key has some in two."""
        for each in self._ranges:
            self._looked_at += _RANGE_RECORDS
            view = self._views[each.slot]
            assert view is not None
            yield view.scan(self._query.state_id, each.start, each.end)


class _Key:
    """The records of one key so far."""

    def __init__(self, wire_key: bytes) -> None:
        self.wire_key = wire_key
        self.found = False
        self.problem: QueryableStateError | None = None
        """Why its records are not answered."""
        self._elements: list[bytes] = []
        self._values: list[bytes] = []
        self._size_bytes = 0

    def add(self, element: bytes, value: bytes, limits: Limits) -> None:
        self.found = True
        if self.problem is not None:
            return
        self._elements.append(element)
        self._values.append(value)
        self._size_bytes += len(element) + len(value)
        if len(self._values) > limits.prefix_records or self._size_bytes > limits.answer_bytes:
            self.refuse(
                LimitExceededError(
                    f"this key has more than {limits.prefix_records} records or "
                    f"{limits.answer_bytes} bytes: read its entries singly"
                )
            )

    def refuse(self, problem: QueryableStateError) -> None:
        self.found = True
        self.problem = problem
        self._elements, self._values = [], []

    def records(self) -> query_pb2.Records:
        return query_pb2.Records(elements=self._elements, values=self._values)
