"""The operators of each query's newest run, and which of them missed a batch."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from queryable_state.server.coordinator.batches.checks import unsealed
from queryable_state.server.coordinator.batches.missed import MissedOperator

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from queryable_state.internal.v1 import backend_pb2
    from queryable_state.server.coordinator.model.engine import QueryInfo
    from queryable_state.server.coordinator.model.jobs import Job
    from queryable_state.server.coordinator.model.operators import OperatorLayout
    from queryable_state.server.coordinator.model.run import RunStart
    from queryable_state.server.coordinator.model.state import CoordinatorState


class RunOperators:
    """Operators of each query's newest run. Thread-safe, no I/O."""

    def __init__(self, state: CoordinatorState) -> None:
        self._state = state

    def started(self, query_id: bytes, info: QueryInfo, start: RunStart) -> None:
        """Records the start of a query's newest run; the first report counts."""
        with self._state.transaction():
            job = self._state.enter(query_id, info)
            if job.run.run_id == info.run_id and job.run.start is None:
                job.run.start = start

    def start(self, query_id: bytes) -> RunStart | None:
        """The reported start of a query's newest run; None if it was not reported."""
        with self._state.transaction():
            job = self._state.jobs.find(query_id)
            return None if job is None else job.run.start

    def have_sealed(
        self,
        batch_id: int,
        operators: Iterable[OperatorLayout],
        seals: Iterable[Sequence[backend_pb2.SealedSubtask]],
    ) -> bool:
        """Whether seals of all subtasks of these operators are reported for a batch."""
        sealed = {
            (report.operator_uid, report.subtask)
            for reports in seals
            for report in reports
            if report.batch_id == batch_id
        }
        return all(
            (layout.uid, index) in sealed
            for layout in operators
            for index in range(layout.parallelism)
        )

    def expected(
        self, query_id: bytes, batch_id: int, sealed: Container[str] = ()
    ) -> list[OperatorLayout]:
        """The operators that have to seal a batch.

        `sealed` are the uids of operators that did; they count if the start of the run was not
        reported.
        """
        with self._state.transaction():
            job = self._state.jobs.find(query_id)
            return [] if job is None else list(self._expected(job, batch_id, sealed))

    def opened_before(self, query_id: bytes, batch_id: int) -> set[str]:
        """The operators of which a subtask was opened for an earlier batch."""
        with self._state.transaction():
            return {
                operator.uid
                for operator in self._state.placement.operators(query_id)
                if operator.first_opened is not None and operator.first_opened < batch_id
            }

    def missed(
        self,
        query_id: bytes,
        batch_id: int,
        seals: Mapping[str, Sequence[backend_pb2.SealedSubtask]],
    ) -> list[MissedOperator]:
        """The operators of which a batch is not known to have all seals; `seals` by server."""
        state = self._state
        sealed: defaultdict[str, set[int]] = defaultdict(set)
        for reports in seals.values():
            for report in reports:
                if report.batch_id == batch_id:
                    sealed[report.operator_uid].add(report.subtask)
        found = []
        with state.transaction():
            job = state.jobs.find(query_id)
            if job is None:
                return []
            for layout in self._expected(job, batch_id, sealed):
                missing = [i for i in range(layout.parallelism) if i not in sealed[layout.uid]]
                if missing:
                    operator = state.placement.operator(query_id, layout.uid)
                    found.append(
                        MissedOperator(
                            batch_id=batch_id,
                            layout=layout,
                            where=self._where(job, layout.uid),
                            missing=tuple(missing),
                            unsealed=unsealed(operator, missing, seals, batch_id),
                        )
                    )
        return found

    def unbegun(self, query_id: bytes, batch_id: int) -> list[MissedOperator]:
        """All operators of the newest run of a query, of which no task has begun the batch."""
        with self._state.transaction():
            job = self._state.jobs.find(query_id)
            if job is None or job.run.start is None:
                return []
            return [
                MissedOperator(
                    batch_id=batch_id,
                    layout=layout,
                    where=self._where(job, layout.uid),
                    missing=tuple(range(layout.parallelism)),
                    unsealed=tuple(range(layout.parallelism)),
                )
                for layout in job.run.start.operators
            ]

    def _expected(
        self, job: Job, batch_id: int, sealed: Container[str]
    ) -> Iterator[OperatorLayout]:
        """The operators that a batch must have run.

        A batch of an earlier run is compared with the operators that were open then, and have the
        same parallelism now.
        """
        start = job.run.start
        started = () if start is None else start.operators
        if start is not None and batch_id > start.after:
            yield from started
            return
        layouts = {layout.uid: layout for layout in started}
        for operator in self._state.placement.operators(job.query_id):
            first = operator.first_opened
            if first is None or first > batch_id:
                continue
            layout = layouts.get(operator.uid)
            if layout is not None and layout.parallelism == operator.parallelism:
                yield layout
            elif not layouts and operator.uid in sealed:
                yield operator.layout

    def _where(self, job: Job, uid: str) -> str:
        return f"job {job.label}, operator {self._state.states.operator_name(job.query_id, uid)}"
