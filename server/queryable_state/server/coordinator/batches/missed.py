"""An operator that missed a committed batch, and the error that says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.wire.errors import JobError, Reason

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
