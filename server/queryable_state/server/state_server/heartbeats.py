"""Heartbeats of a state server: registration with the coordinator and renewal of the lease."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from typing import TYPE_CHECKING, TypeVar

from queryable_state.internal.v1 import coordinator_pb2
from queryable_state.server.settings.shared_settings import LEASE_RENEWALS
from queryable_state.wire.calls.retrying import RetryPolicy, retrying
from queryable_state.wire.errors import (
    PlacementError,
    QueryableStateError,
    SupersededError,
)
from queryable_state.wire.next_step import NextStep

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.server.state_server.base.lease import Lease
    from queryable_state.server.state_server.lease_calls import LeaseCalls
    from queryable_state.server.state_server.owned_stores import OwnedStores
    from queryable_state.server.state_server.stores.store_table import StoreTable

_log = logging.getLogger(__name__)

_RETRY_S = 0.1
_REGISTRATIONS = RetryPolicy(
    steps=frozenset({NextStep.RETRY_SAME, NextStep.LOCATE_AGAIN, NextStep.WAIT}),
    first_delay_s=_RETRY_S,
    longest_delay_s=_RETRY_S,
)
# Longest wait for the event loop: a heartbeat with the previous report is better than none.
_LOOP_S = 0.1

_T = TypeVar("_T")


class Heartbeats:
    """Registers this server and renews its lease until cancelled or superseded.

    A thread of its own calls the coordinator, so that the lease does not depend on the busy event
    loop. The loop applies each answer in one turn: it drops lost subtasks and renews the lease. If
    the placement has not changed since the last applied answer, no subtask can be lost, and the
    thread renews the lease itself.

    If the coordinator does not know the server (any more), the server registers again, and drops
    the subtasks that the coordinator does not list as owned. Sets `stop` if another server has
    replaced this one, or no coordinator answers for `orphan_timeout_s`. Created on the loop.
    """

    def __init__(
        self,
        calls: LeaseCalls,
        lease: Lease,
        table: StoreTable,
        owned_stores: OwnedStores,
        registration: coordinator_pb2.RegisterServerRequest,
        *,
        stop: asyncio.Event,
        orphan_timeout_s: float,
    ) -> None:
        self._calls = calls
        self._lease = lease
        self._table = table
        self._owned_stores = owned_stores
        self._registration = registration
        self._stop = stop
        self._orphan_timeout_s = orphan_timeout_s
        self._loop = asyncio.get_running_loop()
        self._renewing = threading.Lock()
        self._ended = threading.Event()
        self._report = coordinator_pb2.HeartbeatRequest(server_id=registration.server_id)
        self._applied_version: int | None = None
        """Placement version of the last answer that the loop applied."""
        self._failing_since_s: float | None = None
        """Time of the first failed renewal since the last success; None: none has failed."""

    async def register(self) -> None:
        """Registers the server and applies its lease; raises the coordinator's refusal."""
        await asyncio.to_thread(self._register)

    async def register_within(self, timeout_s: float) -> None:
        """Registers; retries for at most `timeout_s` while no coordinator answers.

        Returns at once if `stop` is set.
        """

        async def attempt() -> None:
            if not self._stop.is_set():
                await self.register()

        await retrying(
            attempt,
            _REGISTRATIONS,
            deadline_s=self._loop.time() + timeout_s,
            before_retry=lambda failure: _log.warning("not registered yet: %s", failure),
        )

    async def run(self) -> None:
        """Renews the lease until cancelled; called once."""
        thread = threading.Thread(target=self._renew_until_ended, name="heartbeats", daemon=True)
        thread.start()
        try:
            await self._loop.create_future()
        finally:
            self._ended.set()
            self._calls.close()
            await asyncio.to_thread(thread.join)

    async def renew(self) -> None:
        """Renews once; registers if the coordinator does not know this server.

        Raises the refusal if both fail; sets `stop` before that if the server is superseded or
        orphaned.
        """
        await asyncio.to_thread(self._renew)

    # The methods below run on any thread but the loop's.

    def _renew_until_ended(self) -> None:
        while not self._ended.is_set():
            pause_s = self._lease.duration_s / LEASE_RENEWALS
            held = self._lease.holds()
            try:
                self._renew()
            except SupersededError as refusal:
                _log.error("this server is superseded and stops: %s", refusal)
            except QueryableStateError as failure:
                if not self._ended.is_set():
                    _log.warning("the lease is not renewed: %s", failure)
                pause_s = min(pause_s, _RETRY_S)
            if held and not self._lease.holds() and not self._ended.is_set():
                _log.error("the lease has ended: queries and tasks are refused until it is renewed")
            self._ended.wait(pause_s)

    def _register(self) -> None:
        sent_at_s = self._lease.now_s()
        lease = self._calls.register_server(self._registration)
        self._on_loop(lambda: self._apply(sent_at_s, lease, newly_registered=True)).result()
        _log.info(
            "registered as %s with coordinator %s, lease %d ms",
            self._registration.server_id,
            self._calls.address,
            lease.duration_ms,
        )

    def _renew(self) -> None:
        try:
            with self._renewing:
                # Renews again after a drop: the coordinator may wait for the confirmation.
                while self._renew_once():
                    pass
            self._failing_since_s = None
        except SupersededError:
            self._lease.end()
            self._on_loop(self._stop.set)
            raise
        except QueryableStateError:
            # A coordinator that is gone cannot tell this server to stop. Counted from the first
            # failure, so that a pause of this process does not count.
            now_s = self._lease.now_s()
            if self._failing_since_s is None:
                self._failing_since_s = now_s
            if now_s - self._failing_since_s >= self._orphan_timeout_s:
                _log.error(
                    "no coordinator at %s for %g s: this server stops",
                    self._calls.address,
                    self._orphan_timeout_s,
                )
                self._on_loop(self._stop.set)
            raise

    def _renew_once(self) -> bool:
        """Sends one heartbeat; True if its answer dropped a subtask."""
        self._report = _within(self._on_loop(self._make_report), self._report)
        sent_at_s = self._lease.now_s()
        try:
            lease = self._calls.heartbeat(
                self._report, max(_RETRY_S, self._lease.duration_s / LEASE_RENEWALS)
            )
        except PlacementError as unknown:
            _log.warning("registering again: %s", unknown)
            # The coordinator may now assign the subtasks of this server to others.
            self._lease.end()
            self._register()
            return False
        if lease.placement_version == self._applied_version:
            self._lease.renew(sent_at_s, lease.duration_ms, lease.placement_version)
        return _within(
            self._on_loop(lambda: self._apply(sent_at_s, lease, newly_registered=False)), False
        )

    def _on_loop(self, act: Callable[[], _T]) -> concurrent.futures.Future[_T]:
        """Schedules a call on the loop, in order."""
        done: concurrent.futures.Future[_T] = concurrent.futures.Future()

        def run() -> None:
            try:
                done.set_result(act())
            except Exception as problem:  # noqa: BLE001 - raised to the waiting thread
                done.set_exception(problem)

        self._loop.call_soon_threadsafe(run)
        return done

    # The methods below run on the loop.

    def _make_report(self) -> coordinator_pb2.HeartbeatRequest:
        return coordinator_pb2.HeartbeatRequest(
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

    def _apply(
        self, sent_at_s: float, lease: coordinator_pb2.Lease, *, newly_registered: bool
    ) -> bool:
        # Lost subtasks leave the table in the same turn, so that the renewed lease does not cover
        # reads of them.
        dropped = self._owned_stores.take_lease(lease, newly_registered=newly_registered)
        self._lease.renew(sent_at_s, lease.duration_ms, lease.placement_version)
        self._applied_version = lease.placement_version
        return dropped


def _within(outcome: concurrent.futures.Future[_T], otherwise: _T) -> _T:
    """The result of a call on the loop; `otherwise` if it takes too long."""
    try:
        return outcome.result(_LOOP_S)
    except concurrent.futures.TimeoutError:
        return otherwise
