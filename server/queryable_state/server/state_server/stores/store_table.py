"""The table of stores on this server: by subtask, and by state and key group."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from queryable_state.internal.v1 import coordinator_pb2
from queryable_state.server.metrics.state_reads import StateReads
from queryable_state.server.state_server.key_sampler import KeySampler
from queryable_state.server.state_server.stores.job_stores import JobStores
from queryable_state.server.state_server.stores.record_cache import RecordCache
from queryable_state.server.state_server.watches.change_history import DEFAULT_BYTES
from queryable_state.wire.keys.key_end import key_end
from queryable_state.wire.keys.time_window import is_windowed
from queryable_state.wire.operator_state import OPERATOR_KINDS
from queryable_state.wire.schema.types import TypeInfo
from queryable_state.wire.values.lifetime import Lifetime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from queryable_state.server.state_server.stores.owned_subtask import OwnedSubtask, SubtaskId
    from queryable_state.v1 import registration_pb2
    from queryable_state.wire.keys.key_end import KeyEnd

NOT_HERE = -1


@dataclass(eq=False)
class StateRoute:
    """The stores of one state on this server, by key group."""

    registration: registration_pb2.StateRegistration
    job: JobStores
    subtasks: list[OwnedSubtask] = field(default_factory=list)
    """The subtasks whose stores hold key groups of the state."""

    records: RecordCache = field(default_factory=RecordCache)
    """Cache of the committed records that queries read from the stores."""

    slots: list[int] = field(default_factory=list)
    """Position in `subtasks` by key group; `NOT_HERE` if another server owns it."""

    incomplete: bool = False
    """True if a store has lost older state."""

    reads: StateReads = field(default_factory=StateReads)
    """Counters of its reads, shared with copies of the route."""

    lifetime: Lifetime | None = None
    """The TTL of the state; None: its values do not expire, or have a TTL of their own."""

    ttl_per_value: bool = False
    """True if the timestamp of a value is the time of its expiry; the stores leave out expired
    ones."""

    is_windowed: bool = False
    """True if the state has records in windows."""

    is_plain: bool = False
    """True if a stored record is the answer to a point read of it: the state is keyed, whole and
    without windows, and its values do not expire."""

    asked: KeySampler = field(default_factory=KeySampler)
    """The keys that queries ask for."""

    @property
    def name(self) -> str:
        """The queryable name of the state, or else its state name."""
        return self.registration.queryable_name or self.registration.state_name

    @cached_property
    def key_end(self) -> KeyEnd:
        """Finds the end of encoded keys; the key type of a state never changes."""
        return key_end(TypeInfo.from_proto(self.registration.key_type))

    def rebuild(self) -> None:
        """Recomputes the other fields after a change of the stores or of the registration."""
        self.records.clear()
        self.slots = [NOT_HERE] * self.registration.max_parallelism
        for position, subtask in enumerate(self.subtasks):
            first, end = subtask.first_key_group, subtask.last_key_group + 1
            self.slots[first:end] = [position] * (end - first)
        self.lifetime = Lifetime.of(self.registration)
        self.ttl_per_value = self.registration.ttl.per_value
        self.is_windowed = is_windowed(self.registration)
        self.incomplete = any(subtask.complete_since_batch > 0 for subtask in self.subtasks)
        self.is_plain = not (
            self.incomplete
            or self.is_windowed
            or self.lifetime is not None
            or self.ttl_per_value
            or self.registration.kind in OPERATOR_KINDS
        )


class StoreTable:
    """Every store of this server. For the event loop only.

    Removing a subtask from the table ends its ownership; the caller then closes its store.
    """

    def __init__(
        self, server_id: str, *, hot_keys: bool = True, history_bytes: int = DEFAULT_BYTES
    ) -> None:
        """`hot_keys`: count the keys that queries ask for.

        `history_bytes`: bytes of the changes of each job that it keeps for watches.
        """
        self._server_id = server_id
        self._hot_keys = hot_keys
        self._history_bytes = history_bytes
        self._jobs: dict[bytes, JobStores] = {}
        self._routes: dict[int, StateRoute] = {}
        self.route: Callable[[int], StateRoute | None] = self._routes.get
        """Returns this server's part of a state by its id; None if it has none."""

    def jobs(self) -> list[JobStores]:
        """The jobs that have state on this server. For any thread."""
        return list(self._jobs.values())

    def job(self, query_id: bytes) -> JobStores | None:
        """Returns the stores of a job; None if it has no state on this server."""
        return self._jobs.get(query_id)

    def job_or_new(self, query_id: bytes) -> JobStores:
        """Returns the stores of a job; creates an empty entry if there is none."""
        job = self._jobs.get(query_id)
        if job is None:
            job = self._jobs[query_id] = JobStores(
                query_id, self._server_id, history_bytes=self._history_bytes
            )
        return job

    def subtask(self, subtask_id: SubtaskId) -> OwnedSubtask | None:
        """Returns an owned subtask; None if this server does not own it."""
        job = self._jobs.get(subtask_id.query_id)
        return None if job is None else job.subtasks.get(subtask_id)

    def writable(self, subtask_id: SubtaskId) -> OwnedSubtask | None:
        """Returns an owned subtask; None also if its store accepts no more writes."""
        subtask = self.subtask(subtask_id)
        return None if subtask is None or subtask.store.write_failure() else subtask

    def subtasks(self) -> Iterator[OwnedSubtask]:
        """Yields all owned subtasks."""
        for job in self._jobs.values():
            yield from job.subtasks.values()

    def failed_stores(self) -> Iterator[coordinator_pb2.FailedStore]:
        """Yields the stores that accept no more writes."""
        for subtask in self.subtasks():
            if problem := subtask.store.write_failure():
                yield coordinator_pb2.FailedStore(
                    subtask=subtask.id.to_proto(),
                    problem=problem.message,
                    reason=problem.reason_name,
                )

    def subtasks_now(self) -> list[OwnedSubtask]:
        """All owned subtasks, as a list of its own. For any thread."""
        return [each for job in self.jobs() for each in tuple(job.subtasks.values())]

    def wake_waiting(self) -> None:
        """Wakes every waiting query and watch to check again whether this server may answer."""
        for job in self._jobs.values():
            job.waiting.wake()
            job.watches.wake()

    def staged_bytes(self) -> int:
        """Bytes that are sealed but not committed."""
        return sum(subtask.store.staged_bytes for subtask in self.subtasks())

    def routes(self) -> list[StateRoute]:
        """The states of which this server has a part. For any thread."""
        return list(self._routes.values())

    def registration(self, state_id: int) -> registration_pb2.StateRegistration | None:
        """Returns the registration of a state; None if this server has no part of it."""
        route = self._routes.get(state_id)
        return None if route is None else route.registration

    def add_state(
        self, subtask: OwnedSubtask, registration: registration_pb2.StateRegistration
    ) -> None:
        """Routes a state's key groups to an owned subtask, whose store already has the state."""
        subtask.states[registration.state_id] = registration
        route = self._routes.get(registration.state_id)
        if route is None:
            job = self._jobs[subtask.id.query_id]
            is_counted = self._hot_keys and registration.kind not in OPERATOR_KINDS
            route = self._routes[registration.state_id] = StateRoute(
                registration, job, asked=KeySampler(is_on=is_counted)
            )
            job.records[registration.state_id] = route.records
        route.registration = registration
        if subtask not in route.subtasks:
            route.subtasks.append(subtask)
        route.rebuild()

    def remove(self, subtask: OwnedSubtask) -> None:
        """Ends the ownership of a subtask."""
        job = self._jobs.get(subtask.id.query_id)
        if job is None or job.subtasks.get(subtask.id) is not subtask:
            return
        del job.subtasks[subtask.id]
        for state_id in subtask.states:
            route = self._routes[state_id]
            route.subtasks.remove(subtask)
            route.rebuild()
            if not route.subtasks:
                del self._routes[state_id]
                del job.records[state_id]
        # Queries that wait for its state must be answered by its next owner.
        job.waiting.wake()
        job.watches.wake()

    def remove_job(self, query_id: bytes) -> list[OwnedSubtask]:
        """Removes a job; returns its subtasks, whose stores the caller closes."""
        job = self._jobs.get(query_id)
        if job is None:
            return []
        removed = list(job.subtasks.values())
        for subtask in removed:
            self.remove(subtask)
        del self._jobs[query_id]
        return removed
