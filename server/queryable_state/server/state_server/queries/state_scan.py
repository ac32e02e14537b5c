"""Scan of this server's part of a state, at one pinned version."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from queryable_state.server.query.scan_query import position_of
from queryable_state.server.state_server.queries.answer_failures import not_here, state_lost
from queryable_state.server.state_server.queries.requested_version import (
    RequestedVersion,
    copy_of,
    with_ttl,
)
from queryable_state.server.state_server.queries.scanned_keys import ScannedKeys, record_ranges
from queryable_state.server.state_server.queries.version_reads import held_still, view_at
from queryable_state.server.state_server.stores.store_table import NOT_HERE
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import (
    InvalidRequestError,
    PlacementError,
    QueryableStateError,
    Reason,
    RetryLaterError,
    VersionGoneError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from queryable_state.server.config.limits import Limits
    from queryable_state.server.query.scan_query import ScanQuery
    from queryable_state.server.state_server.base.background_thread import BackgroundThread
    from queryable_state.server.state_server.base.lease import Lease
    from queryable_state.server.state_server.queries.requested_version import RequestedVersions
    from queryable_state.server.state_server.queries.scanned_keys import Page
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
