"""Transactions of the coordinator's state: the lock, the clock of leases, and waiting."""

from __future__ import annotations

import threading

import pytest
from tests.waiting import DEADLINE_S

from queryable_state.internal.v1 import coordinator_pb2
from queryable_state.server.coordinator.model.state import CoordinatorState
from queryable_state.server.coordinator.settings import CoordinatorSettings

SETTINGS = CoordinatorSettings(lease_ms=5_000, lease_margin_ms=1_000)


class Clock:
    def __init__(self) -> None:
        self.ms = 10_000

    def __call__(self) -> int:
        return self.ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def state(clock: Clock) -> CoordinatorState:
    return CoordinatorState(SETTINGS, clock_ms=clock, wall_ms=lambda: 0)


def register(state: CoordinatorState, server_id: str) -> None:
    with state.transaction() as now_ms:
        state.servers.register(
            coordinator_pb2.RegisterServerRequest(
                server_id=server_id, executor_id=server_id, backend_address=f"{server_id}:1"
            ),
            now_ms,
        )


def test_a_transaction_expires_the_leases_that_are_over(
    state: CoordinatorState, clock: Clock
) -> None:
    register(state, "a")
    version = state.placement.version
    for _ in range(6):
        clock.ms += 1_000
        with state.transaction() as now_ms:
            assert now_ms == clock.ms
    with state.transaction():
        server = state.servers.find("a")
        assert server is not None
        assert server.lapsed
        assert state.placement.version > version


def test_a_suspended_process_expires_no_lease(state: CoordinatorState, clock: Clock) -> None:
    register(state, "a")
    clock.ms += 60_000
    with state.transaction():
        server = state.servers.find("a")
        assert server is not None
        assert not server.lapsed
        assert state.stalls == 1
        assert state.stalled.is_set()


def test_a_transaction_may_be_nested_and_releases_the_lock_after_an_error(
    state: CoordinatorState,
) -> None:
    with pytest.raises(KeyError), state.transaction(), state.transaction():
        raise KeyError
    entered = threading.Event()

    def enter() -> None:
        with state.transaction():
            entered.set()

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join(DEADLINE_S)
    assert entered.is_set()


def test_a_waiter_sees_what_a_transaction_notified_it_of(state: CoordinatorState) -> None:
    waiting = threading.Event()
    answers: list[bool] = []

    def has_departed() -> bool:
        waiting.set()
        return state.departures > 0

    def wait() -> None:
        # The lock is released while waiting, also by the transaction around it.
        with state.transaction():
            answers.append(state.wait_for(has_departed, DEADLINE_S))

    thread = threading.Thread(target=wait)
    thread.start()
    assert waiting.wait(DEADLINE_S)
    with state.transaction():
        state.departures += 1
        state.notify_waiters()
    thread.join(DEADLINE_S)
    assert answers == [True]


def test_a_wait_ends_with_its_timeout(state: CoordinatorState) -> None:
    assert not state.wait_for(lambda: False, 0.01)
