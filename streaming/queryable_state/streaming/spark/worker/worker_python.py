"""The Python that Spark's workers run, and the check that operators can run in it.

Spark starts `python3` of the PATH of its executors unless told otherwise, whatever Python the
driver runs: a driver started as `.venv/bin/python job.py` gets workers without its packages.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
import uuid
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from queryable_state.streaming.spark.worker.worker_probe import probe
from queryable_state.wire.errors import InvalidRequestError, Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark import SparkContext

    from queryable_state.streaming.spark.worker.worker_probe import Found

_log = logging.getLogger("queryable_state.streaming")

WORKER_VARIABLE: Final = "PYSPARK_PYTHON"
WORKER_SETTING: Final = "spark.pyspark.python"
_VARIABLES = (WORKER_VARIABLE, "PYSPARK_DRIVER_PYTHON")
# For an executor to be free, and for one that is to start a worker and import.
_FREE_S = 30.0
_ANSWER_S = 180.0

# How Spark fails a task whose worker is of another Python, has no pyspark or cannot be started.
_WORKER_FAILURES = re.compile(
    r"\[PYTHON_VERSION_MISMATCH\][^\n]*|\w*Error: No module named[^\n]*|No module named[^\n]*"
    r"|Cannot run program[^\n]*|Error from python worker:\s*[^\n]*"
)


def choose_driver_python() -> bool:
    """Has workers of a session that is about to be made run the driver's Python; False if the
    environment names one."""
    if any(os.environ.get(name) for name in _VARIABLES):
        return False
    os.environ[WORKER_VARIABLE] = sys.executable
    return True


def follow_configuration(context: SparkContext) -> None:
    """Has workers run the Python that Spark's configuration names, if it does: Spark itself
    follows it only under spark-submit."""
    conf = context.getConf()
    named = conf.get(WORKER_SETTING) or conf.get("spark.pyspark.driver.python")
    if named:
        context.pythonExec = named


class WorkerCheck:
    """One small job, once for each SparkContext: do its workers run the operators' code?"""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._passed: set[str] = set()

    def check(self, context: SparkContext, executors: int) -> None:
        """InvalidRequestError if not: its text begins with the reason and the cure.

        Executors that do not answer in time are not waited for; their first batch tells.
        """
        with self._lock:
            if context.applicationId not in self._passed:
                _check(context, executors)
                self._passed.add(context.applicationId)


def _check(context: SparkContext, executors: int) -> None:
    group = f"queryable-state-{uuid.uuid4()}"
    answers: list[Sequence[Found]] = []
    failures: list[Exception] = []

    def run() -> None:
        try:
            context.setJobGroup(group, "queryable state: which Python the workers run", True)
            rows = context.parallelize(range(executors), executors)
            answers.append(rows.mapPartitions(probe).collect())
        except (PySparkException, Py4JError, OSError) as failure:
            failures.append(failure)

    thread = threading.Thread(target=run, name="queryable-state-worker-check", daemon=True)
    thread.start()
    thread.join(_FREE_S)
    if thread.is_alive() and _has_started(context, group):
        thread.join(_ANSWER_S)
    if thread.is_alive():
        context.cancelJobGroup(group)
        _log.warning(
            "which Python Spark's workers run was not found out in time: if it lacks this package, "
            "the first batch fails"
        )
        return
    for failure in failures:
        found = _WORKER_FAILURES.search(str(failure))
        if found is None:
            _log.warning("which Python Spark's workers run was not found out: %s", failure)
            return
        raise _refusal(context.pythonExec, found[0].strip()) from failure
    own = next(iter(probe(())))[1]
    for interpreter, version, problem in answers[0] if answers else ():
        if problem:
            raise _refusal(interpreter, problem)
        if own and version and version != own:
            raise _refusal(
                interpreter, f"it has spark-queryable-state {version}, and the driver has {own}"
            )


def _has_started(context: SparkContext, group: str) -> bool:
    tracker = context.statusTracker()
    jobs = map(tracker.getJobInfo, tracker.getJobIdsForGroup(group))
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    return any(stage.numActiveTasks + stage.numCompletedTasks for stage in stages if stage)


def _refusal(interpreter: str, problem: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"Spark's Python workers run {interpreter}, which cannot run stateful operators "
        f"({problem}); the driver runs {sys.executable}. Set {WORKER_VARIABLE} in the environment "
        f"before the Spark session is made, or {WORKER_SETTING} for spark-submit, to a Python that "
        f"every executor has, of the driver's version ({sys.version_info[0]}."
        f"{sys.version_info[1]}) and with the same spark-queryable-state[streaming]: "
        f"{WORKER_VARIABLE}={sys.executable} where the executors see the driver's folders",
        reason=Reason.UNSUPPORTED,
    )
