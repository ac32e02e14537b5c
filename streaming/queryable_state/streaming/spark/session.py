"""Requirements on the Spark session of an environment, and warnings about its settings."""

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
_TIME_COLUMNS = "spark.sql.timeType.enabled"
_PARTITIONS = "spark.sql.shuffle.partitions"
_CORES = "cores of the application"


def active_session() -> SparkSession:
    """The active session, or a new one whose workers run the driver's Python by default."""
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
    """Raises InvalidRequestError if operators cannot run on the session."""
    if not hasattr(session, "_jsparkSession"):
        raise InvalidRequestError(
            "the environment needs a classic Spark session, but this is a Spark Connect client: "
            "the coordinator runs in Spark's driver. Run the program in the driver, or unset "
            "SPARK_REMOTE",
            reason=Reason.UNSUPPORTED,
        )
    if session.sparkContext._jsc is None:
        raise InvalidRequestError("the Spark session is stopped: create a new one")
    check_version(pyspark.__version__)


def allow_time_columns(session: SparkSession) -> None:
    """Allows columns of type TIME, unless the session's configuration decides."""
    if session.conf.get(_TIME_COLUMNS, None) is None:
        session.conf.set(_TIME_COLUMNS, "true")


def check_version(version: str) -> None:
    """Raises InvalidRequestError if the Spark version lacks `repartitionById`."""
    numbers = re.findall(r"\d+", version)[:2]
    if tuple(map(int, numbers)) < _OLDEST:
        raise InvalidRequestError(
            f"Spark {version} is too old: keyed operators need repartitionById of Spark 4.1; "
            "install pyspark>=4.1",
            reason=Reason.UNSUPPORTED,
        )


class DefaultParallelism:
    """The parallelism of the jobs of one environment that sets none. Used from one thread.

    `spark.sql.shuffle.partitions` if the user has set it, else the cores of the application. These
    are counted once, so that an environment does not change its parallelism while executors start.
    """

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._counted: tuple[int, str] | None = None
        self._logged = 0

    @property
    def is_given(self) -> bool:
        """True if the user has set `spark.sql.shuffle.partitions`."""
        return self._session.conf.get(_PARTITIONS, None) is not None

    def within(self, max_parallelism: int) -> int:
        """The default, at least 1 and at most `max_parallelism`; logs a new number."""
        given = self._session.conf.get(_PARTITIONS, None)
        if given is not None:
            number, reason = int(given), _PARTITIONS
        else:
            self._counted = self._counted or _counted(self._session)
            number, reason = self._counted
        number = max(1, min(number, max_parallelism))
        if number != self._logged:
            self._logged = number
            _log.info(
                "parallelism %d: %s; set %s or env.set_parallelism(...) to change it",
                number,
                reason,
                _PARTITIONS,
            )
        return number


def _counted(session: SparkSession) -> tuple[int, str]:
    """The parallelism of a session without `spark.sql.shuffle.partitions`, and the reason."""
    context = session.sparkContext
    conf = context.getConf()
    if runs_on_one_machine(context):
        return context.defaultParallelism, _CORES
    if conf.get("spark.dynamicAllocation.enabled", "false").lower() == "true":
        # The cores change with the load, from none on.
        return int(session.conf.get(_PARTITIONS) or 200), f"Spark's default of {_PARTITIONS}"
    # Spark counts only executors that have registered.
    executors = int(conf.get("spark.executor.instances", "0"))
    asked = executors * int(conf.get("spark.executor.cores", "1"))
    return max(context.defaultParallelism, asked), _CORES


def default_location(session: SparkSession) -> str:
    """Spark's default folder for checkpoints; empty: not set."""
    return session.conf.get("spark.sql.streaming.checkpointLocation", "") or ""


def warn_of_risks(context: SparkContext) -> None:
    """Warns about Spark settings that make jobs less reliable."""
    master = str(context.master)
    if re.fullmatch(r"local(\[[^,\]]*\])?", master):
        cores = re.search(r"\[(.*)\]", master)
        _log.warning(
            "Spark runs as %s, so the first failed task fails its query; use local[%s,4] for four "
            "attempts per task",
            master,
            cores[1] if cores else "2",
        )
    if context.getConf().get("spark.speculation", "false").lower() == "true":
        _log.warning(
            "spark.speculation is on: emitted rows match the state only where a function's result "
            "does not depend on the order of its rows; set spark.speculation=false otherwise"
        )


def runs_on_one_machine(context: SparkContext) -> bool:
    """True if all executors are on the driver's machine."""
    return str(context.master).startswith("local")
