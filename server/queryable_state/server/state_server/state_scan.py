"""One scan of the state that is here, from pinning its version to letting go of it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from queryable_state.server.state_server.answer_failures import not_here, state_lost
from queryable_state.server.state_server.asked_version import AskedVersion, copy_of
from queryable_state.server.state_server.scanned_keys import ScannedKeys, record_ranges
from queryable_state.server.state_server.store_table import NOT_HERE
from queryable_state.server.state_server.version_reads import held_still, view_at
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
    from collections.abc import AsyncGenerator, Callable, Sequence

    from queryable_state.server.query.scan_query import ScanQuery
    from queryable_state.server.settings import Limits
    from queryable_state.server.state_server.asked_version import AskedVersions
    from queryable_state.server.state_server.bulk_thread import BulkThread
    from queryable_state.server.state_server.lease import Lease
    from queryable_state.server.state_server.open_scans import OpenScans
    from queryable_state.server.state_server.scanned_keys import Page
    from queryable_state.server.state_server.store_table import StateRoute, StoreTable
    from queryable_state.server.storage.store import StateView

# A taker that stands still for so long lets the version go.
_IDLE_S = 60.0


class StateScan:
    """Pins one version of every store asked for and reads it on the bulk thread.

    `messages` is to be iterated once. Views are opened, read and closed by jobs of the bulk
    thread, in this order, so that closing waits for the read under way.
    """

    def __init__(
        self,
        query: ScanQuery,
        table: StoreTable,
        versions: AskedVersions,
        lease: Lease,
        bulk: BulkThread,
        limits: Limits,
        scans: OpenScans,
        *,
        server_id: str,
        now_ms: Callable[[], int],
        idle_s: float = _IDLE_S,
    ) -> None:
        self._query = query
        self._asked = AskedVersion.of_scan(query)
        self._table = table
        self._versions = versions
        self._lease = lease
        self._bulk = bulk
        self._limits = limits
        self._scans = scans
        self._server_id = server_id
        self._now_ms = now_ms
        self._idle_s = idle_s
        self._views: list[StateView | None] = []
        self._keys: ScannedKeys | None = None
        self._idle = False
        self._last_key = b""

    async def messages(self) -> AsyncGenerator[query_pb2.ScanKvStateResponse, None]:
        """The messages of the scan; closing the generator lets go of the version."""
        self._scans.enter(self._server_id)
        ahead: asyncio.Future[Page] | None = None
        try:
            route, info = await self._open()
            ahead = self._next_page()
            while True:
                page = await self._page(ahead, route)
                ahead = None if page.last else self._next_page()
                if page.keys or page.last:
                    message = self._message(page, route, info)
                    waiting = asyncio.get_running_loop().call_later(self._idle_s, self._give_up)
                    try:
                        yield message
                    finally:
                        waiting.cancel()
                if ahead is None:
                    return
        finally:
            self._scans.leave()
            if ahead is not None:
                ahead.cancel()
            self._let_go()

    async def _open(self) -> tuple[StateRoute, query_pb2.ReadInfo]:
        """Pins the asked version once it is there."""
        query, asked, versions = self._query, self._asked, self._versions
        deadline_s = versions.deadline_s(query.deadline_ms)
        while True:
            route = versions.route(query.state_id)
            self._check(route)
            behind = versions.behind(route, asked)
            if behind is not None:
                await versions.wait(route, asked, behind, deadline_s)
                continue
            held, info = held_still(route), self._info(route)
            pinned = self._pinned(held, info.version)
            try:
                await self._bulk.run(self._open_views, held, pinned)
            except VersionGoneError:
                if asked.at_version is not None:
                    raise
                # Newer batches were committed and folded before the bulk thread came to it.
            except RetryLaterError as again:
                # What was sealed and is asked for uncommitted is replaced.
                if again.reason != Reason.BEHIND:
                    raise
            else:
                return held, info
            if asyncio.get_running_loop().time() >= deadline_s:
                raise RetryLaterError(
                    f"batch {info.version} was gone before it could be pinned: scan again",
                    retry_after_ms=100,
                )

    def _pinned(self, route: StateRoute, version: int) -> dict[int, int]:
        """The version of each store asked for, by slot."""
        slots = set(self._slots(route))
        if self._query.consistency != query_pb2.UNCOMMITTED:
            return dict.fromkeys(slots, version)
        pinned = {}
        for slot in slots:
            store = route.subtasks[slot].store
            # A store that has sealed nothing stands at the batch before.
            staged = store.staged_version
            pinned[slot] = store.committed_version if staged is None else staged
        return pinned

    def _info(self, route: StateRoute) -> query_pb2.ReadInfo:
        query = self._query
        if query.at_version is not None and query.at_version < route.job.committed_version:
            info = route.job.info_at(query.at_version)
        else:
            info = copy_of(self._versions.info(route, query.consistency))
        info.complete_since_batch = max(
            route.subtasks[slot].complete_since_batch for slot in self._slots(route)
        )
        return info

    def _slots(self, route: StateRoute) -> Sequence[int]:
        return route.slots[self._query.first_key_group : self._query.last_key_group + 1]

    def _check(self, route: StateRoute) -> None:
        """Refuses what can never be scanned, or not here."""
        query = self._query
        groups = len(route.slots)
        if not 0 <= query.first_key_group <= query.last_key_group < groups:
            raise InvalidRequestError(
                f"key groups {query.first_key_group} to {query.last_key_group} of a state that "
                f"has {groups}, from 0"
            )
        if query.after and not (
            query.first_key_group <= int.from_bytes(query.after[:2], "big") <= query.last_key_group
        ):
            raise InvalidRequestError(
                f"the scan is to go on behind key {query.after[:32].hex()}, whose key group is "
                f"none of {query.first_key_group} to {query.last_key_group}"
            )
        for slot in set(self._slots(route)):
            if slot == NOT_HERE:
                raise not_here(route, self._server_id, self._lease.placement_version)
            if route.subtasks[slot].complete_since_batch and not query.allow_incomplete:
                raise state_lost(route, slot)

    def _next_page(self) -> asyncio.Future[Page]:
        page = asyncio.ensure_future(self._bulk.run(self._read_page))
        # Its failure is nobody's when the scan is closed meanwhile.
        page.add_done_callback(_forget)
        return page

    async def _page(self, ahead: asyncio.Future[Page], route: StateRoute) -> Page:
        """The page read ahead; raises where this server may not answer any more."""
        try:
            page = await ahead
        except QueryableStateError:
            self._check_owned(route)
            raise
        self._check_owned(route)
        return page

    def _check_owned(self, route: StateRoute) -> None:
        self._lease.check()
        for slot in set(self._slots(route)):
            subtask = route.subtasks[slot]
            if self._table.subtask(subtask.id) is not subtask:
                raise PlacementError(
                    f"{subtask.id} was moved away from server {self._server_id} during the scan: "
                    "go on with its page token, which the new owner takes as long as it has the "
                    "batch",
                    placement_version=self._lease.placement_version,
                )

    def _message(
        self, page: Page, route: StateRoute, info: query_pb2.ReadInfo
    ) -> query_pb2.ScanKvStateResponse:
        goes_on = not page.last or page.cut_off
        if page.keys:
            # A page that only says that more follows stands behind the keys of the one before.
            self._last_key = page.keys[-1].key
        return query_pb2.ScanKvStateResponse(
            keys=page.keys,
            info=info,
            page_token=self._last_key if goes_on else b"",
            last=page.last,
            complete=page.last and not page.cut_off and not info.complete_since_batch,
        )

    def _give_up(self) -> None:
        self._idle = True
        self._let_go()

    def _let_go(self) -> None:
        # The thread ends after the stores, which close their views.
        with suppress(RuntimeError):
            asyncio.ensure_future(self._bulk.run(self._close)).add_done_callback(_forget)

    # From here on: jobs of the bulk thread.

    def _open_views(self, route: StateRoute, pinned: dict[int, int]) -> None:
        self._close()
        for slot, subtask in enumerate(route.subtasks):
            self._views.append(view_at(pinned[slot], subtask) if slot in pinned else None)
        ranges = list(record_ranges(self._query, route.slots))
        self._keys = ScannedKeys(
            self._query, route.registration, self._views, ranges, self._now_ms(), self._limits
        )

    def _read_page(self) -> Page:
        if self._keys is None:
            what = f"for {self._idle_s:g} s nothing was taken" if self._idle else "it has ended"
            raise RetryLaterError(
                f"the scan has let its batch go, because {what}: go on with its page token",
                retry_after_ms=1,
            )
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
