"""Scan of this server's part of a state, at one pinned version."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from queryable_state.server.query.scan_query import position_of
from queryable_state.server.state_server.queries.key_reads import MANY_RECORDS, not_here, state_lost
from queryable_state.server.state_server.queries.versions import (
    RequestedVersion,
    copy_of,
    held_still,
    view_at,
    with_ttl,
)
from queryable_state.server.state_server.stores.store_table import NOT_HERE
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import (
    CorruptDataError,
    InvalidRequestError,
    LimitExceededError,
    PlacementError,
    QueryableStateError,
    Reason,
    RetryLaterError,
    VersionGoneError,
)
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.keys.store_keys import RESULT_ELEMENT, namespace_end, write_window
from queryable_state.wire.schema.types import TypeInfo
from queryable_state.wire.values.lifetime import gone_ms
from queryable_state.wire.values.value_codec import is_stale

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator, Sequence

    from queryable_state.server.config.limits import Limits
    from queryable_state.server.query.scan_query import ScanQuery
    from queryable_state.server.state_server.base.background_thread import BackgroundThread
    from queryable_state.server.state_server.base.lease import Lease
    from queryable_state.server.state_server.queries.versions import RequestedVersions
    from queryable_state.server.state_server.stores.owned_subtask import OwnedSubtask
    from queryable_state.server.state_server.stores.store_table import StateRoute, StoreTable
    from queryable_state.server.storage.store import StateView

# Each open scan keeps its version, and so the changes committed meanwhile, in memory.
_MOST_SCANS = 64


class OpenScans:
    """The number of scans of one server that have a version pinned, with its limit."""

    def __init__(self) -> None:
        self.open = 0

    def enter(self, server_id: str) -> None:
        """Counts a scan; raises `RetryLaterError` (OVERLOADED) at the limit."""
        if self.open >= _MOST_SCANS:
            raise RetryLaterError(
                f"{self.open} scans are open on server {server_id}, which is its limit: "
                "retry once one has ended",
                reason=Reason.OVERLOADED,
                retry_after_ms=200,
            )
        self.open += 1

    def leave(self) -> None:
        """Uncounts a scan that has ended."""
        self.open -= 1


class StateScan:
    """Pins one version of every store in the range and reads it on the background thread.

    Iterate `messages` once. Jobs of the background thread open, read and close the views, in
    this order, so that closing waits for a read in progress.
    """

    def __init__(
        self,
        query: ScanQuery,
        table: StoreTable,
        versions: RequestedVersions,
        lease: Lease,
        background: BackgroundThread,
        limits: Limits,
        scans: OpenScans,
        *,
        server_id: str,
        now_ms: Callable[[], int],
    ) -> None:
        self._query = query
        self._asked = RequestedVersion.of_scan(query)
        self._table = table
        self._versions = versions
        self._lease = lease
        self._background = background
        self._limits = limits
        self._scans = scans
        self._server_id = server_id
        self._now_ms = now_ms
        self._subtasks: list[OwnedSubtask] = []
        self._views: list[StateView | None] = []
        self._keys: ScannedKeys | None = None
        self._last_key = b""

    async def messages(self) -> AsyncGenerator[query_pb2.ScanKvStateResponse, None]:
        """Yields the messages of the scan; closing the generator releases the version."""
        self._scans.enter(self._server_id)
        ahead: asyncio.Future[Page] | None = None
        try:
            info = await self._open()
            if self._query.placement_version:
                yield query_pb2.ScanKvStateResponse(info=info)
            ahead = self._next_page()
            while True:
                page = await self._page(ahead)
                ahead = None if page.last else self._next_page()
                if page.keys or page.last:
                    yield self._message(page, info)
                if ahead is None:
                    return
        finally:
            self._scans.leave()
            if ahead is not None:
                ahead.cancel()
            self._let_go()

    async def _open(self) -> query_pb2.ReadInfo:
        """Waits for the requested version and pins it."""
        query, asked, versions = self._query, self._asked, self._versions
        deadline_s = versions.deadline_s(query.page_timeout_ms)
        while True:
            route = versions.route(query.state_id)
            slots = self._slots(route)
            behind = versions.behind(route, asked)
            if behind is not None:
                await versions.wait(route, asked, behind, deadline_s)
                continue
            now_ms = self._now_ms()
            held, info = held_still(route), with_ttl(self._info(route, slots), route, now_ms)
            pinned = self._pinned(held, slots, info.version)
            self._subtasks = [held.subtasks[slot] for slot in slots]
            try:
                await self._background.run(self._open_views, held, pinned, now_ms)
            except VersionGoneError:
                if asked.at_version is not None:
                    raise
                # Newer batches were committed and compacted before the background thread ran.
            except RetryLaterError as again:
                # The sealed batch of an uncommitted read was replaced meanwhile.
                if again.reason != Reason.BEHIND:
                    raise
            else:
                return info
            if asyncio.get_running_loop().time() >= deadline_s:
                raise RetryLaterError(
                    f"batch {info.version} was compacted before the scan could pin it: scan again",
                    retry_after_ms=100,
                )

    def _pinned(self, route: StateRoute, slots: set[int], version: int) -> dict[int, int]:
        """Returns the version of each store in the range, by slot."""
        if self._query.consistency != query_pb2.UNCOMMITTED:
            return dict.fromkeys(slots, version)
        pinned = {}
        for slot in slots:
            store = route.subtasks[slot].store
            # A store without a sealed batch is read at its committed version.
            staged = store.staged_version
            pinned[slot] = store.committed_version if staged is None else staged
        return pinned

    def _info(self, route: StateRoute, slots: set[int]) -> query_pb2.ReadInfo:
        query = self._query
        if query.at_version is not None and query.at_version < route.job.committed_version:
            info = route.job.info_at(query.at_version)
        else:
            info = copy_of(self._versions.info(route, query.consistency))
        info.complete_since_batch = max(route.subtasks[slot].complete_since_batch for slot in slots)
        return info

    def _slots(self, route: StateRoute) -> set[int]:
        """Returns the slots of the stores in the range; raises if the scan is not allowed."""
        query = self._query
        groups = len(route.slots)
        if not 0 <= query.first_key_group <= query.last_key_group < groups:
            raise InvalidRequestError(
                f"key groups {query.first_key_group} to {query.last_key_group} are not within 0 "
                f"to {groups - 1}, the key groups of state {route.name!r}"
            )
        if query.after and not (
            query.first_key_group <= query.first_open_group <= query.last_key_group
        ):
            raise InvalidRequestError(
                f"the scan continues after key {query.after[:32].hex()}, whose key group is not "
                f"within {query.first_key_group} to {query.last_key_group}: pass the page token "
                "of the same scan"
            )
        slots = {slot for run in query.runs for slot in route.slots[run.first : run.last + 1]}
        for slot in slots:
            if slot == NOT_HERE:
                raise not_here(route, self._server_id, self._lease.placement_version)
            if route.subtasks[slot].complete_since_batch and not query.allow_incomplete:
                raise state_lost(route, slot)
        return slots

    def _next_page(self) -> asyncio.Future[Page]:
        page = asyncio.ensure_future(self._background.run(self._read_page))
        # If the scan is closed meanwhile, nobody retrieves the exception.
        page.add_done_callback(_forget)
        return page

    async def _page(self, ahead: asyncio.Future[Page]) -> Page:
        """Returns the page that was read ahead; raises if this server lost the ownership."""
        try:
            page = await ahead
        except QueryableStateError:
            self._check_owned()
            raise
        self._check_owned()
        return page

    def _check_owned(self) -> None:
        self._lease.check()
        for subtask in self._subtasks:
            if self._table.subtask(subtask.id) is not subtask:
                raise PlacementError(
                    f"{subtask.id} was moved away from server {self._server_id} during the scan: "
                    "continue with its page token, which the new owner accepts as long as it has "
                    "the batch",
                    placement_version=self._lease.placement_version,
                )

    def _message(self, page: Page, info: query_pb2.ReadInfo) -> query_pb2.ScanKvStateResponse:
        goes_on = not page.last or page.cut_off
        if page.keys:
            # A page without keys continues after the last key of the page before.
            self._last_key = position_of(page.keys[-1])
        return query_pb2.ScanKvStateResponse(
            keys=page.keys,
            info=info,
            page_token=self._last_key if goes_on else b"",
            last=page.last,
            complete=page.last
            and page.whole
            and not page.cut_off
            and not info.complete_since_batch,
        )

    def _let_go(self) -> None:
        # When the server stops, the stores close their views before the thread ends.
        with suppress(RuntimeError):
            asyncio.ensure_future(self._background.run(self._close)).add_done_callback(_forget)

    # The methods below run on the background thread.

    def _open_views(self, route: StateRoute, pinned: dict[int, int], now_ms: int) -> None:
        self._close()
        for slot, subtask in enumerate(route.subtasks):
            self._views.append(view_at(pinned[slot], subtask) if slot in pinned else None)
        ranges = list(record_ranges(self._query, route.slots))
        self._keys = ScannedKeys(
            self._query, route.registration, self._views, ranges, now_ms, self._limits
        )

    def _read_page(self) -> Page:
        assert self._keys is not None
        return self._keys.page()

    def _close(self) -> None:
        views, self._views, self._keys = self._views, [], None
        for view in views:
            if view is not None:
                view.close()


def _forget(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        with suppress(Exception):
            future.result()


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
