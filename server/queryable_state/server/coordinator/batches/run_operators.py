"""The operators of each query's newest run, and the errors that refuse a batch they missed."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.wire.errors import CheckpointError, JobError, Reason

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from queryable_state.internal.v1 import backend_pb2
    from queryable_state.server.coordinator.model.engine import QueryInfo
    from queryable_state.server.coordinator.model.jobs import Job
    from queryable_state.server.coordinator.model.operators import Operator, OperatorLayout
    from queryable_state.server.coordinator.model.run import RunStart
    from queryable_state.server.coordinator.model.state import CoordinatorState


_SHOWN = 20


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
                            unsealed=_unsealed(operator, missing, seals, batch_id),
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


class IncompleteBatchError(JobError):
    """The engine committed a batch that an operator missed."""

    default_reason = Reason.PARTIAL_BATCH

    batch_id: int = -1

    @classmethod
    def of(cls, batch_id: int, where: str, missed: str) -> IncompleteBatchError:
        """The error of a batch; `where` names job and operator, `missed` what did not run."""
        error = cls(
            f"{where}: Spark committed batch {batch_id}, and {missed} in it, so its records are in "
            "no state. Either a foreachBatch function ran no action on all of the operator's "
            "output, or Spark's optimizer took the operator out of the plan (an action that needs "
            'none of its rows, as behind where("1=0")). In each batch run an action that reads the '
            'whole output, for example .write.format("noop").mode("overwrite").save(); or set '
            "spark.queryable_state.strict=false to go on without such records"
        )
        error.batch_id = batch_id
        return error


class LostBatchError(CheckpointError):
    """The state root lacks changelogs of the newest batch that an earlier run committed."""

    batch_id: int = -1

    @classmethod
    def of(cls, batch_id: int, lacks: str, left: str) -> LostBatchError:
        """The error of a batch; `lacks` names job, root and files, `left` the state that is left.

        The files do not show whether they were removed or never written.
        """
        error = cls(
            f"batch {batch_id} is committed in Spark's commits/, and {lacks}: the state of batch "
            f"{batch_id} is lost from the root. Files were removed, or the earlier run ended "
            f"before it refused a batch in which the operator did not run. {left}. Spark's commit "
            f"of batch {batch_id} is withdrawn, so the next run of the query begins with the batch "
            "again, of the same offsets. If the source no longer has these rows, put back the "
            f"files and commits/{batch_id} from a backup, start the job from a savepoint, or put "
            f"back commits/{batch_id} alone and allow missing state "
            "(spark.queryable_state.allow_missing_state=true) to go on without these records"
        )
        error.batch_id = batch_id
        return error


@dataclass(frozen=True, kw_only=True)
class MissedOperator:
    """An operator of a query that is not known to have sealed all its subtasks of a batch."""

    batch_id: int
    layout: OperatorLayout
    where: str
    """Job and operator, for people."""
    missing: tuple[int, ...]
    """Subtasks nobody reported a seal of."""
    unsealed: tuple[int, ...]
    """Those of them that are known to have none: their owner has answered, or there is none."""

    def error(self, missing: Sequence[int]) -> IncompleteBatchError:
        """The error where these subtasks did not run."""
        if len(missing) == self.layout.parallelism:
            missed = "the operator did not run"
        else:
            shown = ", ".join(map(str, missing[:_SHOWN]))
            more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
            missed = (
                f"{len(missing)} of the operator's {self.layout.parallelism} subtasks did not run "
                f"({shown}{more})"
            )
        return IncompleteBatchError.of(self.batch_id, self.where, missed)


def _unsealed(
    operator: Operator | None,
    missing: Iterable[int],
    seals: Mapping[str, Sequence[backend_pb2.SealedSubtask]],
    batch_id: int,
) -> tuple[int, ...]:
    """The subtasks, of those nobody reported a seal of, that are known to have none.

    Their owner has answered, or nobody ever opened them. A subtask whose owner opened an empty
    store in place of one that was lost is not among them: its records are lost, not missed.
    """
    known = []
    for index in missing:
        ownership = None if operator is None else operator.subtasks.get(index)
        never_opened = ownership is None or ownership.opened_batch < 0
        if never_opened or (
            ownership is not None
            and ownership.server_id in seals
            and ownership.opened
            and ownership.opened_batch <= batch_id
            and ownership.unsealed_batch != batch_id
        ):
            known.append(index)
    return tuple(known)
