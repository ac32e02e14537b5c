"""Which store holds a state's key group on this server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from queryable_state.server.state_server.stores.job_stores import JobStores
from queryable_state.server.state_server.stores.record_cache import RecordCache

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.server.state_server.stores.owned_subtask import OwnedSubtask, SubtaskId
    from queryable_state.v1 import registration_pb2

NOT_HERE = -1


@dataclass(eq=False)
class StateRoute:
    """The part of one state on this server."""

    registration: registration_pb2.StateRegistration
    job: JobStores
    subtasks: list[OwnedSubtask] = field(default_factory=list)
    """The stores that hold key groups of the state."""

    records: RecordCache = field(default_factory=RecordCache)
    """What queries read of the stores."""

    slots: list[int] = field(default_factory=list)
    """By key group: position in `subtasks`, `NOT_HERE` where another server owns it."""

    incomplete: bool = False
    """Whether a store lost older state."""

    @property
    def name(self) -> str:
        """What people call the state."""
        return self.registration.queryable_name or self.registration.state_name

    def rebuild(self) -> None:
        """Lays the slots out anew after the stores changed."""
        self.records.clear()
        self.slots = [NOT_HERE] * self.registration.max_parallelism
        for position, subtask in enumerate(self.subtasks):
            first, end = subtask.first_key_group, subtask.last_key_group + 1
            self.slots[first:end] = [position] * (end - first)
        self.incomplete = any(subtask.complete_since_batch > 0 for subtask in self.subtasks)


class StoreTable:
    """Every store of this server, by subtask and by state. Event loop only.

    Taking a subtask out of the table is what ends its ownership; closing its store is the
    business of the one who took it out.
    """

    def __init__(self, server_id: str) -> None:
        self._server_id = server_id
        self._jobs: dict[bytes, JobStores] = {}
        self._routes: dict[int, StateRoute] = {}

    def jobs(self) -> list[JobStores]:
        """The jobs this server has state of."""
        return list(self._jobs.values())

    def job(self, query_id: bytes) -> JobStores | None:
        """What this server holds of a job."""
        return self._jobs.get(query_id)

    def job_or_new(self, query_id: bytes) -> JobStores:
        """What this server holds of a job, nothing at first."""
        job = self._jobs.get(query_id)
        if job is None:
            job = self._jobs[query_id] = JobStores(query_id, self._server_id)
        return job

    def subtask(self, subtask_id: SubtaskId) -> OwnedSubtask | None:
        """The owned subtask; None: it is not this server's."""
        job = self._jobs.get(subtask_id.query_id)
        return None if job is None else job.subtasks.get(subtask_id)

    def subtasks(self) -> Iterator[OwnedSubtask]:
        """All owned subtasks."""
        for job in self._jobs.values():
            yield from job.subtasks.values()

    def wake_waiting(self) -> None:
        """Lets every parked query look again whether this server may still answer it."""
        for job in self._jobs.values():
            job.waiting.wake()

    def staged_bytes(self) -> int:
        """Bytes sealed and not committed."""
        return sum(subtask.store.staged_bytes for subtask in self.subtasks())

    def route(self, state_id: int) -> StateRoute | None:
        """The part of a state that is here; None: no part is."""
        return self._routes.get(state_id)

    def registration(self, state_id: int) -> registration_pb2.StateRegistration | None:
        """The registration of a state of which a part is here."""
        route = self._routes.get(state_id)
        return None if route is None else route.registration

    def add_state(
        self, subtask: OwnedSubtask, registration: registration_pb2.StateRegistration
    ) -> None:
        """Routes a state's key groups to an owned subtask whose store has room for it."""
        subtask.states[registration.state_id] = registration
        route = self._routes.get(registration.state_id)
        if route is None:
            job = self._jobs[subtask.id.query_id]
            route = self._routes[registration.state_id] = StateRoute(registration, job)
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
        # What waits for state of it is somebody else's to answer.
        job.waiting.wake()

    def remove_job(self, query_id: bytes) -> list[OwnedSubtask]:
        """Forgets a job; returns the subtasks whose stores are to be closed."""
        job = self._jobs.get(query_id)
        if job is None:
            return []
        removed = list(job.subtasks.values())
        for subtask in removed:
            self.remove(subtask)
        del self._jobs[query_id]
        return removed
