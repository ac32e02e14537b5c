"""Whatever plan stands behind an operator, each row counts once, and is put out once."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from tests.plans import PLANS
from tests.spark.functions import COUNTS, READINGS, CountPerKey

from queryable_state.streaming.spark.plan.frames import Frames
from queryable_state.streaming.spark.queries.failure import failure_of
from queryable_state.wire.errors import JobError, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession
    from tests.spark.conftest import Connect, MakeFeed
    from tests.spark.feed import Feed

    from queryable_state.streaming import JobClient, StreamExecutionEnvironment

PARALLELISM = 3
FEW, MANY = 1, 9
RISKY = ("coalesce", "union", "limit", "head", "take", "rdd")
ADAPTIVE = "spark.sql.adaptive.enabled"


@pytest.fixture
def not_adaptive(spark: SparkSession) -> Iterator[None]:
    """Without adaptive execution, which is on by default."""
    spark.conf.set(ADAPTIVE, "false")
    yield
    spark.conf.unset(ADAPTIVE)


class Batches:
    """Batches by number, in turn with rows in every subtask and with rows in one alone."""

    def __init__(self, source: Feed, number: int) -> None:
        self.rows: list[list[tuple[str, int]]] = []
        seen: Counter[str] = Counter()
        for batch in range(number):
            keys = [f"sensor_{batch}_{key}" for key in range((MANY, FEW)[batch % 2])]
            sensors = [*keys, keys[0]]
            self.rows.append([])
            for sensor in sensors:
                seen[sensor] += 1
                self.rows[-1].append((sensor, seen[sensor]))
            source.add(*({"sensor": sensor, "temperature": 1.0} for sensor in sensors))
        self.counts = dict(seen)

    def sink(self, plans: list[str], wrong: list[str]) -> Callable[[DataFrame, int], None]:
        """Runs one plan a batch, and notes what was put out wrongly."""

        def run(batch: DataFrame, batch_id: int) -> None:
            plan = PLANS[plans[batch_id]]
            found = plan.run(batch)
            if not plan.is_right(found, self.rows[batch_id]):
                wrong.append(f"{plans[batch_id]}: {found} of {self.rows[batch_id]}")

        return run

    def lost(self, connect: Connect, job: JobClient, state: str) -> dict[str, Any]:
        """Wrong counts, by key, which tells the batch."""
        found = connect(job).get_kv_states(job.job_id, state, list(self.counts))
        return {
            key: each and each.value()
            for (key, count), each in zip(self.counts.items(), found, strict=True)
            if each is None or each.value() != count
        }


@pytest.mark.slow
def test_any_plan_of_a_sink_sees_and_counts_all_rows_once(
    env: StreamExecutionEnvironment, feed: MakeFeed, connect: Connect
) -> None:
    """Those that change partition ids or leave partitions out; the next test has all plans."""
    wrong: list[str] = []
    plans, source = [name for name in PLANS if any(map(name.__contains__, RISKY))], feed(READINGS)
    batches = Batches(source, len(plans))
    env.set_parallelism(PARALLELISM)
    counts = env.from_dataframe(source.dataframe()).key_by("sensor")
    counts.process(CountPerKey(), COUNTS).uid("counts").add_sink(batches.sink(plans, wrong))
    job = env.execute_async("plans")
    job.process_all_available()
    assert wrong == []
    assert batches.lost(connect, job, "count") == {}


@pytest.mark.slow
@pytest.mark.usefixtures("not_adaptive")
def test_any_plan_of_several_sinks_of_one_job_sees_and_counts_all_rows_once(
    env: StreamExecutionEnvironment, feed: MakeFeed, connect: Connect
) -> None:
    """Spark optimizes the plans of branches together with the operators."""
    wrong: list[str] = []
    source = feed(READINGS)
    half = len(PLANS) // 2
    plans, others = list(PLANS)[:half], list(PLANS)[-half:]
    batches = Batches(source, half)
    env.set_parallelism(PARALLELISM)
    keyed = env.from_dataframe(source.dataframe()).key_by("sensor")
    # The sink and an operator read the first one.
    first = keyed.process(CountPerKey("first"), COUNTS).uid("first")
    first.add_sink(batches.sink(plans, wrong))
    second = first.key_by("sensor").process(CountPerKey("second"), COUNTS).uid("second")
    second.add_sink(batches.sink(others, wrong))
    job = env.execute_async("plans of branches")
    job.process_all_available()
    assert wrong == []
    assert batches.lost(connect, job, "first") == {}
    assert batches.lost(connect, job, "second") == {}


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(lambda first, _: first.coalesce(1), id="two subtasks in one task"),
        pytest.param(lambda first, other: other.union(first), id="other partition ids"),
    ],
)
def test_a_plan_in_the_stage_of_the_operator_is_refused(
    env: StreamExecutionEnvironment,
    feed: MakeFeed,
    monkeypatch: pytest.MonkeyPatch,
    plan: Callable[[DataFrame, DataFrame], DataFrame],
) -> None:
    """As if Spark had left the shuffle behind the operator out. One subtask alone has rows."""
    monkeypatch.setattr(Frames, "_shuffled", lambda self, node, frame: frame)
    source = feed(READINGS)
    source.add({"sensor": "a", "temperature": 1.0})
    env.set_parallelism(PARALLELISM)
    keyed = env.from_dataframe(source.dataframe()).key_by("sensor")
    counts = keyed.process(CountPerKey(), COUNTS).uid("counts").to_dataframe()
    other = source.dataframe().selectExpr("'other' AS sensor", "CAST(-1 AS BIGINT) AS count")
    query = plan(counts, other).writeStream.format("noop").start()
    with pytest.raises(StreamingQueryException):
        query.processAllAvailable()
    failure = failure_of(query)
    assert isinstance(failure, JobError)
    assert failure.reason == Reason.SUBTASK_MISMATCH
    assert "repartition()" in str(failure)
