"""Start and end of Spark's stages, from its status store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Stage:
    """One stage, in milliseconds of the machine's clock."""

    launched_ms: int
    """Launch of the first task."""
    ended_ms: int


def last_stages(spark: SparkSession) -> list[Stage]:
    """The last stage of each ended job: in a stream that of the operator, one per batch."""
    context: Any = spark.sparkContext._jsc.sc()
    store = context.statusStore()
    jobs = _listed(spark, store.jobsList(None))
    wanted = {max(_listed(spark, job.stageIds())) for job in jobs}
    default = [getattr(store, f"stageList$default${number}")() for number in (4, 5)]
    stages = _listed(spark, store.stageList(None, False, False, *default))
    return [
        Stage(stage.firstTaskLaunchedTime().get().getTime(), stage.completionTime().get().getTime())
        for stage in stages
        if stage.stageId() in wanted and stage.completionTime().isDefined()
    ]


def _listed(spark: SparkSession, sequence: Any) -> list[Any]:
    jvm: Any = spark.sparkContext._jvm
    return list(jvm.scala.jdk.javaapi.CollectionConverters.asJava(sequence))
