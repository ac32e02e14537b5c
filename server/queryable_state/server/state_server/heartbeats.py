"""Keeps the lease, and learns with it what the coordinator knows."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from typing import TYPE_CHECKING, TypeVar

from queryable_state.internal.v1 import coordinator_pb2
from queryable_state.server.settings import LEASE_RENEWALS
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
# How long the event loop is waited for: a heartbeat without its news is better than none.
_LOOP_S = 0.1

_T = TypeVar("_T")


class Heartbeats:
    """Registers this server and renews its lease until cancelled or superseded.

    A thread of its own asks, so that the lease does not depend on the event loop that answers
    everybody. The loop is told each answer, which it takes in one turn: it drops what is lost and
    renews the lease. Where no owner has changed since the answer that it took last, nothing can be
    lost, and the thread renews the lease by itself.

    A coordinator that does not know the server (any more) is registered with anew, and what
    it does not list as owned is dropped. Sets `stop` when another server has taken its place, or
    no coordinator is reached for `orphan_timeout_s`. Made on the loop.
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
        self._asking = threading.Lock()
        self._ended = threading.Event()
        self._report = coordinator_pb2.HeartbeatRequest(server_id=registration.server_id)
        self._taken_version: int | None = None
        """Placement version of the answer that the loop took last."""
        self._failing_since_s: float | None = None
        """When the first of the renewals failed that have failed since one succeeded."""

    async def register(self) -> None:
        """Announces the server and takes its lease; raises the coordinator's refusal."""
        await asyncio.to_thread(self._register)

    async def register_within(self, timeout_s: float) -> None:
        """Registers, trying again while there is no coordinator, at most for `timeout_s`.

        Returns at once when the server is to stop.
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
        """Renews in good time, until cancelled; once."""
        thread = threading.Thread(target=self._renew_for_ever, name="heartbeats", daemon=True)
        thread.start()
        try:
            await self._loop.create_future()
        finally:
            self._ended.set()
            self._calls.close()
            await asyncio.to_thread(thread.join)

    async def renew(self) -> None:
        """Renews once; registers where the coordinator does not know this server.

        Raises the refusal where neither succeeds, after `stop` is set if there is no way back.
        """
        await asyncio.to_thread(self._renew)

    # From here on: any thread but the loop's.

    def _renew_for_ever(self) -> None:
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
        asked_at_s = self._lease.now_s()
        lease = self._calls.register_server(self._registration)
        self._on_loop(lambda: self._take(asked_at_s, lease, anew=True)).result()
        _log.info(
            "registered as %s with coordinator %s, lease %d ms",
            self._registration.server_id,
            self._calls.address,
            lease.duration_ms,
        )

    def _renew(self) -> None:
        try:
            with self._asking:
                # At once again after a loss: the coordinator may wait to hear that it is dropped.
                while self._renew_once():
                    pass
            self._failing_since_s = None
        except SupersededError:
            self._lease.end()
            self._on_loop(self._stop.set)
            raise
        except QueryableStateError:
            # A coordinator that is gone for good can tell nobody to stop. A pause of this process
            # does not count: it asked nobody meanwhile.
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
        """Asks once; whether something was dropped by the answer."""
        self._report = _within(self._on_loop(self._make_report), self._report)
        asked_at_s = self._lease.now_s()
        try:
            lease = self._calls.heartbeat(
                self._report, max(_RETRY_S, self._lease.duration_s / LEASE_RENEWALS)
            )
        except PlacementError as unknown:
            _log.warning("registering anew: %s", unknown)
            # From here on the coordinator may give away what this server holds.
            self._lease.end()
            self._register()
            return False
        if lease.placement_version == self._taken_version:
            self._lease.renew(asked_at_s, lease.duration_ms, lease.placement_version)
        return _within(self._on_loop(lambda: self._take(asked_at_s, lease, anew=False)), False)

    def _on_loop(self, act: Callable[[], _T]) -> concurrent.futures.Future[_T]:
        """Has the loop do something, after what it was given before."""
        done: concurrent.futures.Future[_T] = concurrent.futures.Future()

        def run() -> None:
            try:
                done.set_result(act())
            except Exception as problem:  # noqa: BLE001 - raised to whoever waits
                done.set_exception(problem)

        self._loop.call_soon_threadsafe(run)
        return done

    # From here on: the loop.

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

    def _take(self, asked_at_s: float, lease: coordinator_pb2.Lease, *, anew: bool) -> bool:
        # What is lost leaves the table in the turn that renews the lease: nothing is answered
        # from it any more.
        dropped = self._owned_stores.take_lease(lease, anew=anew)
        self._lease.renew(asked_at_s, lease.duration_ms, lease.placement_version)
        self._taken_version = lease.placement_version
        return dropped


def _within(outcome: concurrent.futures.Future[_T], otherwise: _T) -> _T:
    """What the loop gives, where it does so in time."""
    try:
        return outcome.result(_LOOP_S)
    except concurrent.futures.TimeoutError:
        return otherwise
