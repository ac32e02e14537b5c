"""No two servers ever hold a subtask at one time, whatever is lost or late."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.samples import sampled

from queryable_state.internal.v1 import backend_pb2, coordinator_pb2
from queryable_state.server.coordinator.model.engine import QueryInfo
from queryable_state.server.coordinator.model.state import CoordinatorState
from queryable_state.server.coordinator.servers.leases import Leases
from queryable_state.server.coordinator.servers.subtasks import Subtasks
from queryable_state.server.coordinator.settings import CoordinatorSettings
from queryable_state.wire.errors import PlacementError

PARALLELISM, EXECUTORS, LEASE_MS = 4, 3, 2_000
QUERY, RUN = b"q" * 16, b"r" * 16
EXECUTOR, SUBTASK = st.integers(0, EXECUTORS - 1), st.integers(0, PARALLELISM - 1)
INFO = QueryInfo(name="job", run_id=RUN, active=True)


@dataclass
class Held:
    """A state server as it sees itself; it counts its lease from before it asked."""

    server_id: str
    executor_id: str
    lease_end_ms: int = -1
    owned: dict[int, int] = field(default_factory=dict)
    """Subtask to the placement version it was opened at."""

    def take(self, asked_ms: int, lease: coordinator_pb2.Lease) -> None:
        listed = {subtask.index for subtask in lease.owned}
        for index, version in list(self.owned.items()):
            if index not in listed and version <= lease.placement_version:
                del self.owned[index]
        self.lease_end_ms = max(self.lease_end_ms, asked_ms + lease.duration_ms)


def subtask(index: int) -> backend_pb2.Subtask:
    return backend_pb2.Subtask(
        query_id=QUERY,
        operator_uid="op",
        index=index,
        parallelism=PARALLELISM,
        max_parallelism=128,
    )


class PlacementMachine(RuleBasedStateMachine):
    """Servers start, renew with answers that are late or lost, open, drain and die."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.state = CoordinatorState(
            CoordinatorSettings(lease_ms=LEASE_MS, lease_margin_ms=200),
            clock_ms=lambda: self.now_ms,
            wall_ms=lambda: 1_000 + self.now_ms,
        )
        self.leases = Leases(self.state)
        self.subtasks = Subtasks(self.state)
        self.running: dict[int, Held] = {}
        self.started = 0
        self.late: list[tuple[Held, int, coordinator_pb2.Lease]] = []
        self.version = 0
        self.owners: dict[int, dict[int, str]] = {}
        for executor in range(EXECUTORS):
            self.a_server_starts(executor)

    @rule(executor=EXECUTOR)
    def a_server_starts(self, executor: int) -> None:
        server = Held(f"s{self.started}", str(executor))
        self.started += 1
        # An executor runs one server at a time: a newer one proves the older one gone.
        self.running[executor] = server
        registration = coordinator_pb2.RegisterServerRequest(
            server_id=server.server_id,
            executor_id=server.executor_id,
            backend_address="127.0.0.1:1",
        )
        server.take(self.now_ms, self.leases.register(registration))

    @rule(executors=st.sets(EXECUTOR, min_size=1), arrives=st.booleans())
    def servers_renew(self, executors: set[int], arrives: bool) -> None:
        for executor in executors & self.running.keys():
            self._renew(self.running[executor], arrives)

    def _renew(self, server: Held, arrives: bool) -> None:
        asked_ms = self.now_ms
        request = coordinator_pb2.HeartbeatRequest(server_id=server.server_id)
        lease = self.leases.heartbeat(request)
        if arrives:
            server.take(asked_ms, lease)
        else:
            self.late.append((server, asked_ms, lease))

    @precondition(lambda self: self.late)
    @rule(data=st.data())
    def a_late_answer_arrives(self, data: st.DataObject) -> None:
        server, asked_ms, lease = self.late.pop(data.draw(st.integers(0, len(self.late) - 1)))
        server.take(asked_ms, lease)

    @rule(executor=EXECUTOR, first=SUBTASK, gave_up=st.booleans())
    def tasks_ask_and_owners_open(self, executor: int, first: int, gave_up: bool) -> None:
        asker = self.running.get(executor)
        if asker is None:
            return
        for index in range(first, PARALLELISM):
            self._ask_and_open(asker, index, gave_up)

    def _ask_and_open(self, asker: Held, index: int, gave_up: bool) -> None:
        known = self.state.placement.operator(QUERY, "op")
        owner = self.state.placement.owner(known, index) if known else None
        request = coordinator_pb2.AssignSubtaskRequest(
            subtask=subtask(index),
            server_id=asker.server_id,
            not_server_id=owner.server_id if owner and gave_up else "",
        )
        version = self.state.placement.version
        try:
            located = self.subtasks.reachable_owner(request) or self.subtasks.assign(
                request, INFO, EXECUTORS
            )
        except PlacementError:
            return
        if owner is not None and self.state.placement.version == version:
            assert located.server_id == owner.server_id, "an owner in good standing is kept"
        for server in self.running.values():
            if server.server_id == located.server_id and index not in server.owned:
                opening = coordinator_pb2.OpenSubtaskRequest(
                    subtask=subtask(index), server_id=server.server_id, batch_id=0
                )
                response, _ = self.subtasks.open(opening, INFO, None)
                server.owned[index] = response.placement_version

    @rule(executor=EXECUTOR, drained=st.booleans())
    def a_server_ends(self, executor: int, drained: bool) -> None:
        server = self.running.pop(executor, None)
        if server is not None and drained:
            self.leases.deregister(server.server_id)

    @rule(steps=st.integers(1, 11))
    def time_passes(self, steps: int) -> None:
        for _ in range(steps):
            self.now_ms += 200
            self.leases.tick()

    @rule()
    def the_coordinator_stands_still(self) -> None:
        self.now_ms += 10 * LEASE_MS
        self.leases.tick()
        # No job has a root here that another driver may have taken over.
        self.state.checked_stalls = self.state.stalls

    @invariant()
    def nobody_shares_a_subtask(self) -> None:
        holding = Counter(
            index
            for server in self.running.values()
            if self.now_ms < server.lease_end_ms
            for index in server.owned
        )
        assert all(count == 1 for count in holding.values()), holding

    @invariant()
    def a_version_has_one_set_of_owners(self) -> None:
        operator = self.state.placement.operator(QUERY, "op")
        if operator is None:
            return
        owners = {}
        for index in range(PARALLELISM):
            server = self.state.placement.owner(operator, index)
            owners[index] = server.server_id if server else ""
        version = self.state.placement.version
        assert version >= self.version
        self.version = version
        assert self.owners.setdefault(version, owners) == owners

    @invariant()
    def what_is_known_by_server_is_what_each_subtask_says(self) -> None:
        operator = self.state.placement.operator(QUERY, "op")
        if operator is None:
            return
        subtasks = operator.subtasks.items()
        for server in [f"s{number}" for number in range(self.started)]:
            owned = {index for index, subtask in subtasks if subtask.server_id == server}
            assert operator.owned_by(server) == owned
        assert operator.holders == {subtask.server_id for _, subtask in subtasks if subtask.opened}

    @invariant()
    def who_has_lapsed_is_known_without_looking_at_everybody(self) -> None:
        with self.state.transaction() as now_ms:
            for server in self.state.servers:
                assert server.lapsed == (now_ms >= self.state.servers.freed_at_ms(server))


TestPlacement = PlacementMachine.TestCase
TestPlacement.settings = settings(max_examples=sampled(100), stateful_step_count=50)
