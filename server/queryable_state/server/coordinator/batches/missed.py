"""Committed batches that lack records of an operator, and the errors that refuse them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.wire.errors import CheckpointError, JobError, Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.server.coordinator.model.operators import OperatorLayout

_SHOWN = 20


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
