"""Keeps the lease, and learns with it what the coordinator knows."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from queryable_state.internal.v1 import coordinator_pb2
from queryable_state.wire.errors import (
    PlacementError,
    QueryableStateError,
    QueryTimeoutError,
    RetryLaterError,
    SupersededError,
)

if TYPE_CHECKING:
    from queryable_state.server.coordinator_link import CoordinatorLink
    from queryable_state.server.state_server.holdings import Holdings
    from queryable_state.server.state_server.lease import Lease
    from queryable_state.server.state_server.store_table import StoreTable

_log = logging.getLogger(__name__)

# Renewals a lease: two may be lost before it ends.
_RENEWALS = 3
_RETRY_S = 0.1


class Heartbeats:
    """Registers this server and renews its lease until cancelled or superseded.

    A coordinator that does not know the server (any more) is registered with anew, and what
    it does not list as owned is dropped. Sets `stop` when another server has taken its place, or
    no coordinator is reached for `orphan_timeout_s`.
    """

    def __init__(
        self,
        link: CoordinatorLink,
        lease: Lease,
        table: StoreTable,
        holdings: Holdings,
        registration: coordinator_pb2.RegisterServerRequest,
        *,
        stop: asyncio.Event,
        orphan_timeout_s: float,
    ) -> None:
        self._link = link
        self._lease = lease
        self._table = table
        self._holdings = holdings
        self._registration = registration
        self._stop = stop
        self._orphan_timeout_s = orphan_timeout_s

    async def register(self) -> None:
        """Announces the server and takes its lease; raises the coordinator's refusal."""
        asked_at_s = self._lease.now_s()
        lease = await self._link.register_server(self._registration)
        self._take(asked_at_s, lease, anew=True)
        _log.info(
            "registered as %s with coordinator %s, lease %d ms",
            self._registration.server_id,
            self._link.address,
            lease.duration_ms,
        )

    async def register_within(self, timeout_s: float) -> None:
        """Registers, trying again while there is no coordinator, at most for `timeout_s`.

        Returns at once when the server is to stop.
        """
        end_s = asyncio.get_running_loop().time() + timeout_s
        while not self._stop.is_set():
            try:
                await self.register()
            except (RetryLaterError, QueryTimeoutError) as failure:
                if asyncio.get_running_loop().time() >= end_s:
                    raise
                _log.warning("not registered yet: %s", failure)
            else:
                return
            await asyncio.sleep(_RETRY_S)

    async def run(self) -> None:
        """Renews in good time, until cancelled or superseded."""
        while not self._stop.is_set():
            pause_s = self._lease.duration_s / _RENEWALS
            held = self._lease.holds()
            try:
                await self.renew()
            except SupersededError as refusal:
                _log.error("this server is superseded and stops: %s", refusal)
            except QueryableStateError as failure:
                _log.warning("the lease is not renewed: %s", failure)
                pause_s = min(pause_s, _RETRY_S)
            if held and not self._lease.holds():
                _log.error("the lease has ended: queries and tasks are refused until it is renewed")
            await asyncio.sleep(pause_s)

    async def renew(self) -> None:
        """Renews once; registers where the coordinator does not know this server.

        Raises the refusal where neither succeeds, after `stop` is set if there is no way back.
        """
        try:
            # At once again after a loss: the coordinator may wait to hear that it is dropped.
            while await self._renew():
                pass
        except SupersededError:
            self._lease.end()
            self._stop.set()
            raise
        except QueryableStateError:
            # A coordinator that is gone for good can tell nobody to stop.
            if self._lease.since_renewed_s >= self._orphan_timeout_s:
                _log.error(
                    "no coordinator at %s for %g s: this server stops",
                    self._link.address,
                    self._orphan_timeout_s,
                )
                self._stop.set()
            raise

    async def _renew(self) -> bool:
        """Asks once; whether something was dropped by the answer."""
        asked_at_s = self._lease.now_s()
        request = coordinator_pb2.HeartbeatRequest(
            server_id=self._registration.server_id,
            committed=[
                coordinator_pb2.QueryVersion(
                    query_id=job.query_id,
                    version=job.committed_version,
                    commit_time_ms=job.info.commit_time_ms,
                    watermark_ms=job.info.watermark_ms,
                )
                for job in self._table.jobs()
            ],
            staged_bytes=self._table.staged_bytes(),
            placement_version=self._lease.placement_version,
        )
        try:
            lease = await self._link.heartbeat(
                request, timeout_s=max(_RETRY_S, self._lease.duration_s / _RENEWALS)
            )
        except PlacementError as unknown:
            _log.warning("registering anew: %s", unknown)
            # From here on the coordinator may give away what this server holds.
            self._lease.end()
            await self.register()
            return False
        return self._take(asked_at_s, lease, anew=False)

    def _take(self, asked_at_s: float, lease: coordinator_pb2.Lease, *, anew: bool) -> bool:
        # What is lost leaves the table in the turn that renews the lease: nothing is answered
        # from it any more.
        dropped = self._holdings.take_lease(lease, anew=anew)
        self._lease.renew(asked_at_s, lease.duration_ms, lease.placement_version)
        return dropped
