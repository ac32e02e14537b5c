"""Versions of a query: the one it requests, the wait for it, and the readers of a pinned one."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Self

from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import (
    InvalidRequestError,
    PlacementError,
    Reason,
    RetryLaterError,
    SupersededError,
    VersionGoneError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from queryable_state.internal.v1.checkpoint_pb2 import EndedTimeline
    from queryable_state.server.query.scan_query import ScanQuery
    from queryable_state.server.state_server.base.lease import Lease
    from queryable_state.server.state_server.queries.key_reads import (
        ElementsReader,
        PointReader,
        PrefixReader,
    )
    from queryable_state.server.state_server.stores.owned_subtask import OwnedSubtask
    from queryable_state.server.state_server.stores.store_table import StateRoute, StoreTable
    from queryable_state.server.storage.store import StateStore, StateView

_BEHIND_RETRY_MS = 50
# The part of a query's deadline spent waiting, so that the client receives the reason in time.
_PARKED_PART = 0.9
_ADVICE = "Read without at_least, and pass the info of that answer to later reads"
# Wakes up just after the lease has ended, not just before.
_AFTER_S = 0.001


class RequestedVersion(NamedTuple):
    """The version options of a query or scan."""

    state_id: int
    consistency: query_pb2.Consistency.ValueType
    min_version: int
    max_staleness_ms: int
    at_version: int | None
    """Exactly this version; None: any that fits the other options."""
    timeline: int
    """Timeline of the version that the query names; 0: not known."""

    @property
    def wanted(self) -> int:
        """The version that the query names; 0: none, unless it is `at_version`."""
        return self.min_version if self.at_version is None else self.at_version

    @classmethod
    def of(cls, query: query_pb2.Query) -> Self:
        """Returns the options of a query; raises `InvalidRequestError` if they conflict."""
        at_version = query.at_version if query.HasField("at_version") else None
        return cls(
            query.state_id,
            query.consistency,
            query.min_version,
            query.max_staleness_ms,
            at_version,
            query.timeline,
        )._checked()

    @classmethod
    def of_scan(cls, query: ScanQuery) -> Self:
        """Returns the options of a scan; raises `InvalidRequestError` if they conflict."""
        return cls(
            query.state_id,
            query.consistency,
            query.min_version,
            query.max_staleness_ms,
            query.at_version,
            query.timeline,
        )._checked()

    def _checked(self) -> Self:
        if self.at_version is not None:
            if self.consistency == query_pb2.UNCOMMITTED:
                raise InvalidRequestError(
                    f"at_version {self.at_version} selects a committed batch, and UNCOMMITTED "
                    "state was requested, too: leave one of them out"
                )
            # 0 is any batch, and -1 is before the first one.
            if self.min_version and self.at_version < self.min_version:
                raise InvalidRequestError(
                    f"at_version {self.at_version} is below min_version {self.min_version}: leave "
                    "one of them out"
                )
        return self


class RequestedVersions:
    """Finds this server's part of a state, and waits for a version. For the event loop only."""

    def __init__(
        self,
        table: StoreTable,
        lease: Lease,
        *,
        server_id: str,
        now_ms: Callable[[], int],
        default_deadline_ms: int,
    ) -> None:
        self._table = table
        self._lease = lease
        self._server_id = server_id
        self._now_ms = now_ms
        self._default_deadline_ms = default_deadline_ms

    def route(self, state_id: int) -> StateRoute:
        """Returns this server's part of a state; raises `PlacementError` if it has none."""
        self._lease.check()
        route = self._table.route(state_id)
        if route is None:
            raise PlacementError(
                f"server {self._server_id} owns no key group of state {state_id}: "
                "locate its owners again",
                placement_version=self._lease.placement_version,
            )
        return route

    def info(
        self, route: StateRoute, consistency: query_pb2.Consistency.ValueType
    ) -> query_pb2.ReadInfo:
        """Returns the newest commit, or the sealed batch if uncommitted state is requested."""
        info = route.job.info
        if consistency == query_pb2.UNCOMMITTED:
            staged = max(
                (-1 if version is None else version)
                for version in (subtask.store.staged_version for subtask in route.subtasks)
            )
            if staged > info.version:
                info = copy_of(info)
                info.version = staged
                info.commit_time_ms = 0
        return info

    def behind(self, route: StateRoute, asked: RequestedVersion) -> RetryLaterError | None:
        """Returns why the version is not available yet; None if it is, or is already gone.

        Raises `VersionGoneError` if the version was taken back.
        """
        server_id, wanted = self._server_id, asked.wanted
        gone = _taken_back(route, asked, lambda: self.info(route, query_pb2.UNCOMMITTED).version)
        if gone is not None:
            raise gone
        version = route.job.committed_version
        if asked.at_version is None:
            version = self.info(route, asked.consistency).version
        if wanted > version and (wanted or asked.at_version is not None):
            return _behind(
                f"server {server_id} is at batch {version} of state {route.name!r}, and batch "
                f"{wanted} was requested: retry once it is committed"
            )
        if asked.at_version is None and asked.max_staleness_ms:
            age_ms = self._now_ms() - route.job.info.commit_time_ms
            if age_ms > asked.max_staleness_ms:
                return _behind(
                    f"the newest commit of state {route.name!r} on server {server_id} is batch "
                    f"{route.job.committed_version}, {age_ms} ms old; at most "
                    f"{asked.max_staleness_ms} ms were requested: retry after the next commit"
                )
        return None

    def deadline_s(self, deadline_ms: int) -> float:
        """Returns the loop time until which a query that arrives now may wait."""
        wait_ms = (deadline_ms or self._default_deadline_ms) * _PARKED_PART
        return asyncio.get_running_loop().time() + wait_ms / 1000

    async def wait(
        self, route: StateRoute, asked: RequestedVersion, behind: RetryLaterError, deadline_s: float
    ) -> None:
        """Waits until a version may be available; raises `behind` at the deadline.

        Returns early if this server may have lost the ownership.
        """
        left_s = deadline_s - asyncio.get_running_loop().time()
        if left_s <= 0:
            raise behind
        await route.job.waiting.park(
            max(asked.wanted, route.job.committed_version + 1),
            min(left_s, self._lease.remaining_s + _AFTER_S),
        )


def copy_of(info: query_pb2.ReadInfo) -> query_pb2.ReadInfo:
    """Returns a mutable copy."""
    copied = query_pb2.ReadInfo()
    copied.CopyFrom(info)
    return copied


def with_ttl(info: query_pb2.ReadInfo, route: StateRoute, now_ms: int) -> query_pb2.ReadInfo:
    """Returns the info of an answer by which clients compute the remaining life of its values."""
    if route.lifetime is None and not route.ttl_per_value:
        return info
    copied = copy_of(info)
    copied.ttl_ms = 0 if route.lifetime is None else route.lifetime.ttl_ms
    copied.ttl_per_value = route.ttl_per_value
    copied.read_time_ms = now_ms
    return copied


def _behind(message: str) -> RetryLaterError:
    return RetryLaterError(message, reason=Reason.BEHIND, retry_after_ms=_BEHIND_RETRY_MS)


def _taken_back(
    route: StateRoute, asked: RequestedVersion, sealed: Callable[[], int]
) -> VersionGoneError | None:
    """Returns why the requested version never comes; None if it is there, or may come.

    `sealed` returns the newest sealed version. A query that does not tell the timeline of its
    version may mean the new batch of a number that was taken back: it waits once that is sealed.
    """
    timeline, wanted, seen = route.job.timeline, asked.wanted, asked.timeline
    if seen == timeline.id or not (asked.min_version or asked.at_version is not None or seen):
        return None
    if not seen:
        lost = [each for each in timeline.ended if each.first_batch <= wanted <= each.last_batch]
        return _gone(route, asked, lost[-1]) if lost and wanted > sealed() else None
    ids = [each.id for each in timeline.ended]
    if seen not in ids:
        # A checkpoint does not know the timelines that began after it; Spark's state has none.
        if not timeline.id or route.job.info.role == query_pb2.CHECKPOINT:
            return None
        return _of_another_job(route, asked)
    left = _left_at(timeline.ended[ids.index(seen) :])
    return _gone(route, asked, left) if wanted >= left.first_batch else None


def _left_at(ended: Sequence[EndedTimeline]) -> EndedTimeline:
    """The end at which the job left the first of these timelines for the most of its batches."""
    return min(ended, key=lambda each: each.first_batch)


def _gone(route: StateRoute, asked: RequestedVersion, ended: EndedTimeline) -> VersionGoneError:
    if ended.savepoint:
        how = f"began from {ended.savepoint}, which is as of batch {ended.first_batch - 1}"
    else:
        how = f"was set back from batch {ended.last_batch}, and began again at {ended.first_batch}"
    return VersionGoneError(
        f"{_wanted(asked)} of state {route.name!r} was taken back: at {_time(ended.ended_at_ms)} "
        f"job {_job(route)} {how}. It is at batch {route.job.committed_version} now, in which what "
        f"you have seen may be missing. {_ADVICE}"
    )


def _of_another_job(route: StateRoute, asked: RequestedVersion) -> VersionGoneError:
    return VersionGoneError(
        f"{_wanted(asked)} of state {route.name!r} was read from another job, or from an earlier "
        f"start of it, than job {_job(route)}, which has the state now and is at batch "
        f"{route.job.committed_version}: their batches are not comparable. {_ADVICE}"
    )


def _wanted(asked: RequestedVersion) -> str:
    return f"batch {asked.wanted}" + ("" if asked.at_version is not None else " or later")


def _job(route: StateRoute) -> str:
    return route.job.query_id.hex()


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class ViewReaders:
    """Reads the views of one version. For the background thread only."""

    records = None

    def __init__(self, query: query_pb2.Query, views: Sequence[StateView | None]) -> None:
        self._state_id = query.state_id
        self._views = views

    def points(self) -> list[PointReader | None]:
        readers: list[PointReader | None] = [
            None if view is None else partial(view.get, self._state_id) for view in self._views
        ]
        readers.append(None)
        return readers

    def prefixes(self) -> list[PrefixReader | None]:
        readers: list[PrefixReader | None] = [
            None if view is None else _prefix_reader(view) for view in self._views
        ]
        readers.append(None)
        return readers

    def operator_states(self) -> list[ElementsReader | None]:
        readers: list[ElementsReader | None] = [
            None if view is None else _elements_reader(view) for view in self._views
        ]
        readers.append(None)
        return readers


def _elements_reader(view: StateView) -> ElementsReader:
    return lambda state_id, _uncommitted: view.operator_state(state_id)


def _prefix_reader(view: StateView) -> PrefixReader:
    def read(
        state_id: int, prefix: bytes, _uncommitted: bool, limit: int
    ) -> list[tuple[bytes, bytes]]:
        return view.prefix(state_id, prefix, limit)

    return read


@contextmanager
def views_at(
    versions: Sequence[int], route: StateRoute, *, allow_incomplete: bool
) -> Iterator[list[StateView | None]]:
    """Returns the views of a route's stores, by slot; None if a store may not be read.

    Raises `VersionGoneError` if a store has compacted its version.
    """
    with ExitStack() as stack:
        yield [
            stack.enter_context(view_at(version, subtask))
            if allow_incomplete or not subtask.complete_since_batch
            else None
            for version, subtask in zip(versions, route.subtasks, strict=True)
        ]


def view_at(version: int, subtask: OwnedSubtask) -> StateView:
    """Returns a view at a committed version; raises `VersionGoneError` if it is compacted."""
    try:
        return subtask.store.view(version)
    except SupersededError as gone:
        raise VersionGoneError(
            f"batch {version} of {subtask.id} is compacted; the oldest readable batch is "
            f"{subtask.store.base_version}: read that one or a newer one"
        ) from gone


def newest_version(store: StateStore, consistency: query_pb2.Consistency.ValueType) -> int:
    """The version that a query without `at_version` reads."""
    staged = store.staged_version if consistency == query_pb2.UNCOMMITTED else None
    return store.committed_version if staged is None else staged


def held_still(route: StateRoute) -> StateRoute:
    """Returns a copy of a route for another thread; later changes do not affect it."""
    return replace(route, subtasks=list(route.subtasks))
