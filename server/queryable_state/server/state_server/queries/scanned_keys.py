"""Pages of keys with their records, read from views of one version on the background thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from queryable_state.server.storage.key_order import prefix_end
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import CorruptDataError, LimitExceededError
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.keys.store_keys import RESULT_ELEMENT
from queryable_state.wire.schema.types import TypeInfo
from queryable_state.wire.values.lifetime import gone_ms
from queryable_state.wire.values.value_codec import is_stale

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
# Records visited, matching or not, before other jobs get the thread.
_PAGE_RECORDS = 4096
# Cost of the seek at the beginning of a range, in records.
_RANGE_RECORDS = 16


class RecordRange(NamedTuple):
    """Consecutive records of one store: start <= store key < end."""

    slot: int
    start: bytes
    end: bytes


class Page(NamedTuple):
    """The keys of one message."""

    keys: list[query_pb2.ScannedKey]
    last: bool
    """True if this is the last page."""

    cut_off: bool
    """True if the scan's limit ended it before the end of the range."""

    whole: bool
    """True if every key so far has its records."""


def record_ranges(query: ScanQuery, slots: Sequence[int]) -> Iterator[RecordRange]:
    """Yields the record ranges of a scan, in order, merged where possible.

    With a start or end key, each key group is a range of its own.
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
                # Encoded keys are prefix-free, so this is the first record of the next key.
                start = max(start, prefix_end(query.after) or end)
            if start < end:
                yield RecordRange(slots[group], start, end)
            group = upto + 1


class ScannedKeys:
    """Groups the records of ranges by key, one page at a time.

    A page holds all records of a key or none: a key whose records exceed an answer carries an
    error instead. A scan of keys only has no such limit.
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
        self._gone_ms = gone_ms(registration, now_ms)
        self._views = views
        self._ranges = ranges
        self._limits = limits
        self._left = query.limit or -1
        self._looked_at = 0
        self._whole = True
        many_records = registration.kind in _MANY_RECORDS
        self._keys = self._keys_of_many() if many_records else self._keys_of_one()

    def page(self) -> Page:
        """Returns the next keys; the page is empty if it visited only non-matching records."""
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
        """Yields the keys of a state with one record per key; None after every slice of work."""
        namespace, keys_only = self._query.namespace, self._query.keys_only
        decode, gone_at_ms = self._codec.decode, self._gone_ms
        for records in self._records():
            if self._looked_at > _PAGE_RECORDS:
                yield None
            for record_key, value in records:
                self._looked_at += 1
                if self._looked_at > _PAGE_RECORDS:
                    yield None
                key_end = decode(record_key, 2)[1]
                # A value has no element after the namespace; an accumulator has one.
                if record_key[key_end:] != namespace:
                    continue
                try:
                    if gone_at_ms is not None and is_stale(value, gone_at_ms):
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
        """Yields the keys of a list or map state; None after every slice of work."""
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
                    if self._gone_ms is not None and is_stale(value, self._gone_ms):
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
        """Returns the answer for one key of a list or map."""
        if key.problem is not None:
            return self._refused(key.wire_key, key.problem)
        if self._query.keys_only:
            return query_pb2.ScannedKey(key=key.wire_key)
        return query_pb2.ScannedKey(key=key.wire_key, records=key.records())

    def _refused(self, wire_key: bytes, problem: QueryableStateError) -> query_pb2.ScannedKey:
        self._whole = False
        return query_pb2.ScannedKey(key=wire_key, error=problem.to_proto())

    def _records(self) -> Iterator[Iterator[tuple[bytes, bytes]]]:
        """Yields the records of each range; a key is never in two ranges."""
        for each in self._ranges:
            self._looked_at += _RANGE_RECORDS
            view = self._views[each.slot]
            assert view is not None
            yield view.scan(self._query.state_id, each.start, each.end)


class _Key:
    """The collected records of one key."""

    def __init__(self, wire_key: bytes) -> None:
        self.wire_key = wire_key
        self.found = False
        self.problem: QueryableStateError | None = None
        """The error to answer instead of the records; None: there is none."""
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
                    f"{limits.answer_bytes} bytes: read single entries instead"
                )
            )

    def refuse(self, problem: QueryableStateError) -> None:
        self.found = True
        self.problem = problem
        self._elements, self._values = [], []

    def records(self) -> query_pb2.Records:
        return query_pb2.Records(elements=self._elements, values=self._values)
