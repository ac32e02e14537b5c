"""The version of a state that a query requests, and the wait until it is available."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple, Self

from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import (
    InvalidRequestError,
    PlacementError,
    Reason,
    RetryLaterError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.server.query.scan_query import ScanQuery
    from queryable_state.server.state_server.base.lease import Lease
    from queryable_state.server.state_server.stores.store_table import StateRoute, StoreTable

_BEHIND_RETRY_MS = 50
# The part of a query's deadline spent waiting, so that the client receives the reason in time.
_PARKED_PART = 0.9
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
        """Returns why the version is not available yet; None if it is, or is already gone."""
        server_id = self._server_id
        wanted = asked.min_version if asked.at_version is None else asked.at_version
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
        wanted = asked.min_version if asked.at_version is None else asked.at_version
        await route.job.waiting.park(
            max(wanted, route.job.committed_version + 1),
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
