"""The Spark session an environment stands on: what it must be, and what is risky about it."""

from __future__ import annotations

import logging
import re

import pyspark
from pyspark import SparkContext
from pyspark.sql import SparkSession

from queryable_state.streaming.spark.worker.worker_python import (
    choose_driver_python,
    follow_configuration,
)
from queryable_state.wire.errors import InvalidRequestError, Reason

_log = logging.getLogger("queryable_state.streaming")

_OLDEST = (4, 1)


def active_session() -> SparkSession:
    """The active session, or a new one, whose workers run the driver's Python if nothing else is
    set."""
    found = SparkSession.getActiveSession()
    if found is not None:
        return found
    if SparkContext._active_spark_context is not None:
        return SparkSession.builder.getOrCreate()
    chosen = choose_driver_python()
    made = SparkSession.builder.getOrCreate()
    if chosen and hasattr(made, "_jsparkSession"):
        follow_configuration(made.sparkContext)
    return made


def check_session(session: SparkSession) -> None:
    """Refuses a session the operators cannot run on."""
    if not hasattr(session, "_jsparkSession"):
        raise InvalidRequestError(
            "the environment needs a classic Spark session, and this is a Spark Connect client: "
            "the coordinator lives beside Spark's driver. Run the program in the driver, or unset "
            "SPARK_REMOTE",
            reason=Reason.UNSUPPORTED,
        )
    if session.sparkContext._jsc is None:
        raise InvalidRequestError("the Spark session is stopped: make a new one")
    check_version(pyspark.__version__)


def check_version(version: str) -> None:
    """Refuses a Spark that is too old to shuffle by partition id."""
    numbers = re.findall(r"\d+", version)[:2]
    if tuple(map(int, numbers)) < _OLDEST:
        raise InvalidRequestError(
            f"Spark {version} is too old: repartitionById, on which keyed operators stand, came "
            "with Spark 4.1; install pyspark>=4.1",
            reason=Reason.UNSUPPORTED,
        )


def parallelism_of(session: SparkSession) -> int:
    """Shuffle partitions of a session."""
    return int(session.conf.get("spark.sql.shuffle.partitions") or 200)


def default_location(session: SparkSession) -> str:
    """Folder in which Spark keeps the checkpoints of queries that name none; empty: not set."""
    return session.conf.get("spark.sql.streaming.checkpointLocation", "") or ""


def warn_of_risks(context: SparkContext) -> None:
    """Logs what is set in a way that costs a job its safety."""
    master = str(context.master)
    if re.fullmatch(r"local(\[[^,\]]*\])?", master):
        cores = re.search(r"\[(.*)\]", master)
        _log.warning(
            "Spark runs as %s, where the first task that fails ends its query; "
            "use local[%s,4] for four attempts",
            master,
            cores[1] if cores else "2",
        )
    if context.getConf().get("spark.speculation", "false").lower() == "true":
        _log.warning(
            "spark.speculation is on: emitted rows match the state only where a function's result "
            "does not depend on the order of its rows; set spark.speculation=false otherwise"
        )


def runs_on_one_machine(context: SparkContext) -> bool:
    """Whether all executors are on the driver's machine."""
    return str(context.master).startswith("local")
