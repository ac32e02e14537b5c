"""Plans that users put behind a stateful operator, each with what it must put out.

`PLANS` are actions over the DataFrame of a batch, for `foreachBatch`; they work on any first two
columns. All of them run every subtask of the operator. `PRUNED_PLANS` are the actions that Spark's
optimizer answers without running what is behind them.
"""

from __future__ import annotations

import itertools
import tempfile
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import DataFrame

    Rows = Sequence[tuple[Any, ...]]
    Check = Callable[[Rows, Rows], bool]


@dataclass(frozen=True)
class Plan:
    """One action over a batch."""

    run: Callable[[DataFrame], Rows]
    """Runs the action; returns the rows it answers."""
    is_right: Check
    """Whether rows may be the answer, given all rows of the batch."""


def same(found: Rows, rows: Rows) -> bool:
    """Each row of the batch, once."""
    return Counter(found) == Counter(rows)


def twice(found: Rows, rows: Rows) -> bool:
    """Each row of the batch, twice."""
    return same(found, [*rows, *rows])


def part(found: Rows, rows: Rows) -> bool:
    """Rows of the batch, none more often than there."""
    return not Counter(found) - Counter(rows)


def first(number: int) -> Check:
    """So many rows of the batch, or all where it has fewer."""
    return lambda found, rows: part(found, rows) and len(found) == min(number, len(rows))


def in_order(found: Rows, rows: Rows) -> bool:
    """The rows of the batch, sorted."""
    return list(found) == sorted(rows)


def of(answer: Callable[[Rows], Iterable[tuple[Any, ...]]]) -> Check:
    """What a function makes of the rows of the batch."""
    return lambda found, rows: same(found, list(answer(rows)))


def tuples(rows: Iterable[Any]) -> Rows:
    """Rows as plain tuples."""
    return [tuple(row) for row in rows]


def halves(batch: DataFrame) -> DataFrame:
    """The union of two filters of a batch, which have each row once."""
    odd = F.xxhash64(batch.columns[0]) % 2 == 0
    return batch.where(odd).union(batch.where(~odd))


def with_more(batch: DataFrame) -> DataFrame:
    """The union of rows of another source with a batch, which comes second."""
    more = batch.sparkSession.range(0, 7, 1, 3).selectExpr("'more' AS k", "id AS n")
    return more.union(batch)


def checkpointed(batch: DataFrame) -> DataFrame:
    """The batch from Spark's reliable checkpoint."""
    context = batch.sparkSession.sparkContext
    if context.getCheckpointDir() is None:
        context.setCheckpointDir(tempfile.mkdtemp(prefix="plans-"))
    return batch.checkpoint()


def persisted(action: Callable[[DataFrame], Rows]) -> Callable[[DataFrame], Rows]:
    """The action over the batch in Spark's cache."""

    def run(batch: DataFrame) -> Rows:
        batch = batch.persist()
        try:
            return action(batch)
        finally:
            batch.unpersist(blocking=True)

    return run


def head_then_all(batch: DataFrame) -> Rows:
    """One row, then all in one partition."""
    batch.head(1)
    return tuples(batch.coalesce(1).collect())


def all_are_written(batch: DataFrame) -> Rows:
    """All rows, after two actions that answer nothing."""
    batch.write.format("noop").mode("overwrite").save()
    batch.foreachPartition(lambda rows: None)
    return tuples(batch.collect())


def one_is_written(batch: DataFrame) -> Rows:
    """No row."""
    batch.limit(1).write.format("noop").mode("overwrite").save()
    return []


def frame(change: Callable[[DataFrame], DataFrame], check: Check = same) -> Plan:
    """A plan that collects what it makes of the batch."""
    return Plan(lambda batch: tuples(change(batch).collect()), check)


def key(batch: DataFrame) -> Any:
    """The first column."""
    return F.col(batch.columns[0])


def number(batch: DataFrame) -> Any:
    """The second column."""
    return F.col(batch.columns[1])


def ranked(batch: DataFrame) -> DataFrame:
    """Each row with its place among those of its key."""
    window = Window.partitionBy(key(batch)).orderBy(number(batch))
    return batch.select(key(batch), F.row_number().over(window))


def joined(batch: DataFrame, how: str = "inner") -> DataFrame:
    """The batch joined with itself by all columns."""
    left, right = batch.alias("left"), batch.alias("right")
    equal = [F.col(f"left.`{name}`") == F.col(f"right.`{name}`") for name in batch.columns]
    return left.join(right, equal, how).select("left.*")


def numbered(rows: Rows) -> Iterable[tuple[Any, ...]]:
    """As `ranked` answers."""
    for name, of_key in itertools.groupby(sorted(rows), lambda row: row[0]):
        yield from ((name, place) for place, _ in enumerate(of_key, 1))


PLANS: dict[str, Plan] = {
    "collect": frame(lambda batch: batch),
    "write, foreachPartition, collect": Plan(all_are_written, same),
    "coalesce(1)": frame(lambda batch: batch.coalesce(1)),
    "coalesce(2)": frame(lambda batch: batch.coalesce(2)),
    "coalesce(9)": frame(lambda batch: batch.coalesce(9)),
    "coalesce(1) of a filter": frame(
        lambda batch: batch.where(number(batch) > 1).coalesce(1),
        of(lambda rows: (row for row in rows if row[1] > 1)),
    ),
    "union of two filters": frame(halves),
    "union of two filters, coalesce(1)": frame(lambda batch: halves(batch).coalesce(1)),
    "union of two filters, limit(1)": frame(lambda batch: halves(batch).limit(1), first(1)),
    "union with itself": frame(lambda batch: batch.union(batch), twice),
    "union with itself, coalesce(2)": frame(lambda batch: batch.union(batch).coalesce(2), twice),
    "union behind other rows": frame(
        lambda batch: with_more(batch).where("k != 'more'"),
    ),
    "union behind other rows, coalesce(1)": frame(
        lambda batch: with_more(batch).coalesce(1).where("k != 'more'"),
    ),
    "repartition(1)": frame(lambda batch: batch.repartition(1)),
    "repartition(5)": frame(lambda batch: batch.repartition(5)),
    "repartition by column, coalesce(1)": frame(
        lambda batch: batch.repartition(4, key(batch)).coalesce(1)
    ),
    "repartitionById": frame(lambda batch: batch.repartitionById(2, F.lit(1))),
    "rebalance, coalesce(1)": frame(lambda batch: batch.hint("rebalance").coalesce(1)),
    "coalesce hint": frame(lambda batch: batch.hint("coalesce", 1)),
    "repartitionByRange": frame(lambda batch: batch.repartitionByRange(2, key(batch))),
    "persist": Plan(persisted(lambda batch: tuples(batch.collect())), same),
    "persist, coalesce(1)": Plan(
        persisted(lambda batch: tuples(batch.coalesce(1).collect())), same
    ),
    "persist, head, coalesce(1)": Plan(persisted(head_then_all), same),
    "persist, union, coalesce(1)": Plan(
        persisted(lambda batch: tuples(halves(batch).coalesce(1).collect())), same
    ),
    "head, coalesce(1)": Plan(head_then_all, same),
    "checkpoint": frame(checkpointed),
    "localCheckpoint, coalesce(1)": frame(lambda batch: batch.localCheckpoint().coalesce(1)),
    "lazy localCheckpoint, coalesce(1)": frame(
        lambda batch: batch.localCheckpoint(eager=False).coalesce(1)
    ),
    "sort": Plan(lambda batch: tuples(batch.sort(*batch.columns).collect()), in_order),
    "sort, limit(2)": Plan(
        lambda batch: tuples(batch.sort(*batch.columns).limit(2).collect()),
        lambda found, rows: list(found) == sorted(rows)[:2],
    ),
    "limit(1)": frame(lambda batch: batch.limit(1), first(1)),
    "limit(2), coalesce(1)": frame(lambda batch: batch.limit(2).coalesce(1), first(2)),
    "limit(1), write": Plan(one_is_written, part),
    "offset(1)": frame(
        lambda batch: batch.offset(1),
        lambda found, rows: part(found, rows) and len(found) == max(0, len(rows) - 1),
    ),
    "head": Plan(lambda batch: tuples(batch.head(1)), first(1)),
    "take": Plan(lambda batch: tuples(batch.take(2)), first(2)),
    "tail": Plan(lambda batch: tuples(batch.tail(1)), first(1)),
    "isEmpty": Plan(
        lambda batch: [(batch.isEmpty(),)], lambda found, rows: found[0] == (not rows,)
    ),
    "first row of toLocalIterator": Plan(
        lambda batch: tuples(itertools.islice(batch.toLocalIterator(), 1)), first(1)
    ),
    "count": Plan(lambda batch: [(batch.count(),)], of(lambda rows: [(len(rows),)])),
    "group by key": frame(
        lambda batch: batch.groupBy(key(batch)).count(),
        of(lambda rows: Counter(row[0] for row in rows).items()),
    ),
    "distinct": frame(lambda batch: batch.distinct(), of(set)),
    "window": frame(ranked, of(numbered)),
    "window over all": frame(
        lambda batch: batch.select(F.row_number().over(Window.orderBy(number(batch)))),
        of(lambda rows: ((place,) for place, _ in enumerate(rows, 1))),
    ),
    "join with itself": frame(joined),
    "semi join with itself, coalesce(1)": frame(
        lambda batch: joined(batch, "left_semi").coalesce(1)
    ),
    "broadcast join": frame(
        lambda batch: batch.join(
            F.broadcast(batch.sparkSession.range(1, 100).toDF("n")), number(batch) == F.col("n")
        ).drop("n")
    ),
    "broadcast of the batch": frame(
        lambda batch: (
            batch.sparkSession.range(1, 100)
            .toDF("n")
            .join(F.broadcast(batch), number(batch) == F.col("n"))
            .drop("n")
        )
    ),
    "sample": frame(lambda batch: batch.sample(0.5, 3), part),
    "sample, coalesce(1)": frame(lambda batch: batch.sample(0.5, 3).coalesce(1), part),
    "rdd": Plan(lambda batch: tuples(batch.rdd.collect()), same),
    "rdd, coalesce(1)": Plan(lambda batch: tuples(batch.rdd.coalesce(1).collect()), same),
    "rdd, union, take": Plan(lambda batch: tuples(batch.rdd.union(batch.rdd).take(1)), first(1)),
    "mapInArrow, coalesce(1)": frame(
        lambda batch: batch.mapInArrow(lambda parts: parts, batch.schema).coalesce(1)
    ),
}
"""By name."""

PRUNED_PLANS: dict[str, Plan] = {
    "where 1=0": frame(lambda batch: batch.where("1=0"), part),
    "isin of nothing": frame(lambda batch: batch.where(key(batch).isin([])), part),
    "limit(0)": frame(lambda batch: batch.limit(0), part),
    "join with nothing": frame(
        lambda batch: batch.join(
            F.broadcast(batch.sparkSession.createDataFrame([], "n bigint")),
            number(batch) == F.col("n"),
        ).drop("n"),
        part,
    ),
}
"""By name."""
