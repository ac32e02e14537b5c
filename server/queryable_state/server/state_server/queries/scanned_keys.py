"""Pages of keys with their records, read from views of one version on the background thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from queryable_state.server.state_server.queries.key_reads import MANY_RECORDS
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import CorruptDataError, LimitExceededError
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.keys.store_keys import RESULT_ELEMENT, namespace_end, write_window
from queryable_state.wire.schema.types import TypeInfo
from queryable_state.wire.values.lifetime import gone_ms
from queryable_state.wire.values.value_codec import is_stale

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from queryable_state.server.config.limits import Limits
    from queryable_state.server.query.scan_query import ScanQuery
    from queryable_state.server.storage.store import StateView
    from queryable_state.wire.errors import QueryableStateError

_NO_ELEMENT = (RESULT_ELEMENT,)
_PAGE_KEYS = 512
_PAGE_BYTES = 256 * 1024
# Records visited, matching or not, before other jobs get the thread.
_PAGE_RECORDS = 4096
# Cost of the seek at the beginning of a range, in records.
_RANGE_RECORDS = 16


class RecordRange(NamedTuple):
    """Records of one store: start <= store key < end, in the order of the store."""

    slot: int
    start: bytes
    end: bytes
    after: bytes = b""
    """Only the records behind those of this wire key or window; empty: from the first one."""


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
            after = query.after if query.after[:2] == first else b""
            if start < end:
                yield RecordRange(slots[group], start, end, after)
            group = upto + 1


class ScannedKeys:
    """Groups the records of ranges by key, one page at a time.

    In a scan of every window each window of a key is an item of its own, as a key is in other
    scans; all timers of a key are one item. A page holds all records of an item or none: an item
    whose records exceed an answer carries an error instead. A scan of keys only has no such limit.
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
        self._is_timers = registration.kind == registration_pb2.TIMER
        self._every_window = not query.namespace and not self._is_timers
        self._views = views
        self._ranges = ranges
        self._limits = limits
        self._left = query.limit or -1
        self._looked_at = 0
        self._whole = True
        many_records = registration.kind in MANY_RECORDS
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
        decode, gone_at_ms, every_window = self._codec.decode, self._gone_ms, self._every_window
        for records in self._records():
            if self._looked_at > _PAGE_RECORDS:
                yield None
            for record_key, value in records:
                self._looked_at += 1
                if self._looked_at > _PAGE_RECORDS:
                    yield None
                key_end = decode(record_key, 2)[1]
                # A value has no element after the namespace; an accumulator has one.
                if every_window:
                    if namespace_end(record_key, key_end) != len(record_key):
                        continue
                elif record_key[key_end:] != namespace:
                    continue
                window = _window(record_key[key_end:]) if every_window else None
                try:
                    if gone_at_ms is not None and is_stale(value, gone_at_ms):
                        continue
                except CorruptDataError as problem:
                    yield self._refused(record_key[:key_end], window, problem)
                    continue
                yield query_pb2.ScannedKey(
                    key=record_key[:key_end],
                    window=window,
                    records=None
                    if keys_only
                    else query_pb2.Records(elements=_NO_ELEMENT, values=(value,)),
                )

    def _keys_of_many(self) -> Iterator[query_pb2.ScannedKey | None]:
        """Yields the keys of lists, maps or timers; None after every slice of work."""
        keys_only = self._query.keys_only
        for records in self._records():
            if self._looked_at > _PAGE_RECORDS:
                yield None
            current = _Key(b"", b"")
            for record_key, value in records:
                if not current.group or not record_key.startswith(current.group):
                    if current.found:
                        yield self._scanned(current)
                    current = self._key_of(record_key)
                self._looked_at += 1
                if self._looked_at > _PAGE_RECORDS:
                    yield None
                if not record_key.startswith(current.prefix):
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
                    current.add(record_key[current.skipped :], value, self._limits)
            if current.found:
                yield self._scanned(current)

    def _key_of(self, record_key: bytes) -> _Key:
        """Returns the item that a record is the first one of."""
        key_end = self._codec.decode(record_key, 2)[1]
        wire_key = record_key[:key_end]
        if self._every_window:
            group = record_key[: namespace_end(record_key, key_end)]
            return _Key(wire_key, group, window=_window(group[key_end:]))
        key = _Key(wire_key, wire_key, prefix=wire_key + self._query.namespace)
        if self._is_timers:
            # The element of a timer begins with its namespace.
            key.skipped = key_end
        return key

    def _scanned(self, key: _Key) -> query_pb2.ScannedKey:
        """Returns the answer for one item."""
        if key.problem is not None:
            return self._refused(key.wire_key, key.window, key.problem)
        records = None if self._query.keys_only else key.records()
        return query_pb2.ScannedKey(key=key.wire_key, window=key.window, records=records)

    def _refused(
        self, wire_key: bytes, window: query_pb2.TimeWindow | None, problem: QueryableStateError
    ) -> query_pb2.ScannedKey:
        self._whole = False
        return query_pb2.ScannedKey(key=wire_key, window=window, error=problem.to_proto())

    def _records(self) -> Iterator[Iterator[tuple[bytes, bytes]]]:
        """Yields the records of each range; a key is never in two ranges."""
        for each in self._ranges:
            self._looked_at += _RANGE_RECORDS
            view = self._views[each.slot]
            assert view is not None
            yield view.scan(self._query.state_id, each.start, each.end, each.after)


def _window(namespace: bytes) -> query_pb2.TimeWindow:
    window = query_pb2.TimeWindow()
    if not write_window(namespace, window):
        raise CorruptDataError("a state with windows has a record outside of windows")
    return window


class _Key:
    """The collected records of one item: of one key or, in a scan of every window, one window."""

    def __init__(
        self,
        wire_key: bytes,
        group: bytes,
        *,
        prefix: bytes = b"",
        window: query_pb2.TimeWindow | None = None,
    ) -> None:
        self.wire_key = wire_key
        self.group = group
        """All records of the key have this prefix."""
        self.prefix = prefix or group
        """The records that the scan selects have this prefix."""
        self.skipped = len(self.prefix)
        """Bytes before the element of a record."""
        self.window = window
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
