"""Random plans behind the operators of a round: one a batch in `foreachBatch`, one in a file sink.

Nothing a sink does may change the state. The rows that a sink gets are known from the history.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from tests.chaos.history.batch_log import BatchLog
from tests.chaos.history.history import History
from tests.chaos.jobs.workload import GROUP_SUMS
from tests.plans import PLANS, PRUNED_PLANS, halves

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame

WRONG_ROWS = "wrong-rows"
"""File of a round with what its sink got wrongly; it got nothing wrongly if there is none."""
NO_ACTION = "no action"
_LOST_WITH_AN_EXECUTOR = "localCheckpoint"
"""Plans whose rows Spark keeps on executors alone: one that is killed fails the action."""
_NUMBERS = 90
"""The second column is below this: plans join it with the numbers from 1 to 99."""

ACTIONS = (
    *(name for name in PLANS if _LOST_WITH_AN_EXECUTOR not in name),
    *PRUNED_PLANS,
    NO_ACTION,
)

FILE_SINK_PLANS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "none": lambda rows: rows,
    "coalesce(1)": lambda rows: rows.coalesce(1),
    "coalesce(3)": lambda rows: rows.coalesce(3),
    "repartition(3)": lambda rows: rows.repartition(3),
    "repartition by column, coalesce(1)": lambda rows: rows.repartition(3, "group").coalesce(1),
    "filter": lambda rows: rows.where("number >= 0"),
    "union of two filters": halves,
    "union of two filters, coalesce(1)": lambda rows: halves(rows).coalesce(1),
}
"""Each has every row once."""


def action_of(seed: int, batch_id: int) -> str:
    """The name of the action of a batch; the same when the batch runs again."""
    chance = random.Random(f"action-{seed}-{batch_id}")
    # Batches that leave operators out are as frequent as any other kind.
    kinds = ([*PRUNED_PLANS, NO_ACTION], ACTIONS, ACTIONS, ACTIONS)
    return chance.choice(chance.choice(kinds))


def rows_of_batch(history: History, batch_id: int) -> list[tuple[str, int]]:
    """What the last operator puts out for a batch: each group that has rows in it, with its count
    as `acted_on` has it."""
    groups = sorted({row.group for row in history.rows(batch_id)})
    return [
        (group, history.value(GROUP_SUMS, group, batch_id)[0] % _NUMBERS + 1) for group in groups
    ]


def acted_on(batch: DataFrame) -> DataFrame:
    """Two columns of what the last operator puts out."""
    return batch.select("group", (F.col("ones") % _NUMBERS + 1).alias("count"))


def random_actions(seed: int, spark: Path, wrong: Path) -> Callable[[DataFrame, int], None]:
    """A sink with an action a batch; lines in the file `wrong` say what it got wrongly.

    `spark`: the checkpoint location, whose log says what the input of a batch is.
    """
    history = History(seed, BatchLog(spark))

    def run(batch: DataFrame, batch_id: int) -> None:
        name = action_of(seed, batch_id)
        if name == NO_ACTION:
            return
        plan = (PLANS | PRUNED_PLANS)[name]
        found, rows = plan.run(acted_on(batch)), rows_of_batch(history, batch_id)
        if not plan.is_right(found, rows):
            with wrong.open("a") as file:
                file.write(f"batch {batch_id}, {name}: {found} of {rows}\n")

    return run
