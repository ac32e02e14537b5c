"""Choice and check of the Python interpreter of Spark's workers.

By default Spark runs `python3` from the PATH of its executors, independent of the driver's Python.
So a driver started as `.venv/bin/python job.py` would get workers without its packages.
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
from pyspark import cloudpickle
from pyspark.errors import PySparkException

from queryable_state.server.state_server.failed_start import PACKAGES_ADVICE
from queryable_state.wire.errors import InvalidRequestError, Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Found = tuple[str, str, str]
    from collections.abc import Sequence

    from pyspark import SparkContext


def probe(rows: Iterable[object]) -> Iterator[Found]:
    """A function for `mapPartitions`: yields the interpreter, the installed version of this package
    (empty: unknown), and why an operator's task could not run (empty: it can)."""
    import importlib.util
    import sys
    from importlib import metadata

    try:
        version = metadata.version("spark-queryable-state")
    except metadata.PackageNotFoundError:
        version = ""
    problem = ""
    try:
        for module in (
            "queryable_state.streaming.spark.worker.task",
            "queryable_state.streaming.runtime.stage",
            "queryable_state.server.state_server.launch",
        ):
            importlib.import_module(module)
        # Found, not imported: gRPC reads environment variables that a task sets before.
        for module in ("grpc", "grpc_health", "grpc_reflection", "rocksdict", "uvloop", "fsspec"):
            if importlib.util.find_spec(module) is None:
                raise ModuleNotFoundError(f"No module named {module!r}")
    except Exception as error:  # noqa: BLE001 - an import may raise anything
        problem = f"{type(error).__name__}: {error}"
    yield sys.executable, version, problem


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


_log = logging.getLogger("queryable_state.streaming")

WORKER_VARIABLE: Final = "PYSPARK_PYTHON"
WORKER_SETTING: Final = "spark.pyspark.python"
_VARIABLES = (WORKER_VARIABLE, "PYSPARK_DRIVER_PYTHON")
# Timeouts for a free executor, and for a worker to start and import.
_FREE_S = 30.0
_ANSWER_S = 180.0

# Spark's errors for a worker with another Python version, without pyspark, or that cannot start.
_WORKER_FAILURES = re.compile(
    r"\[PYTHON_VERSION_MISMATCH\][^\n]*|\w*Error: No module named[^\n]*|No module named[^\n]*"
    r"|Cannot run program[^\n]*|Error from python worker:\s*[^\n]*"
)


def choose_driver_python() -> bool:
    """Makes the workers of a new session run the driver's Python; False if the environment already
    sets another one."""
    if any(os.environ.get(name) for name in _VARIABLES):
        return False
    os.environ[WORKER_VARIABLE] = sys.executable
    return True


def follow_configuration(context: SparkContext) -> None:
    """Makes workers run the Python that Spark's configuration sets, if any: Spark itself reads that
    setting only under spark-submit."""
    conf = context.getConf()
    named = conf.get(WORKER_SETTING) or conf.get("spark.pyspark.driver.python")
    if named:
        context.pythonExec = named


class WorkerCheck:
    """A check, once per SparkContext, that its workers can run operators; it runs a small job."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._passed: set[str] = set()

    def check(self, context: SparkContext, executors: int) -> None:
        """Raises InvalidRequestError if the workers cannot run operators.

        If executors do not answer in time, it logs a warning; their first batch may fail then.
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
            "the check of the Python of Spark's workers timed out: if it lacks this package, the "
            "first batch fails"
        )
        return
    for failure in failures:
        found = _WORKER_FAILURES.search(str(failure))
        if found is None:
            _log.warning("the check of the Python of Spark's workers failed: %s", failure)
            return
        raise _refusal(context, context.pythonExec, found[0].strip()) from failure
    own = next(iter(probe(())))[1]
    for interpreter, version, problem in answers[0] if answers else ():
        if problem:
            raise _refusal(context, interpreter, problem)
        if own and version and version != own:
            raise _refusal(
                context,
                interpreter,
                f"it has spark-queryable-state {version}, but the driver has {own}",
            )


def _has_started(context: SparkContext, group: str) -> bool:
    tracker = context.statusTracker()
    jobs = map(tracker.getJobInfo, tracker.getJobIdsForGroup(group))
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    return any(stage.numActiveTasks + stage.numCompletedTasks for stage in stages if stage)


def _refusal(context: SparkContext, interpreter: str, problem: str) -> InvalidRequestError:
    message = (
        f"Spark's Python workers run {interpreter}, which cannot run stateful operators "
        f"({problem}); the driver runs {sys.executable}. "
    )
    shipped = context.getConf().get("spark.submit.pyFiles") or ""
    if shipped and "No module named" in problem:
        message += f"spark.submit.pyFiles (--py-files) is {shipped}: {PACKAGES_ADVICE}"
        if ".whl" in shipped:
            message += "; and Spark puts .zip, .egg and .py on Python's path, but no .whl"
        return InvalidRequestError(message, reason=Reason.UNSUPPORTED)
    return InvalidRequestError(
        f"{message}Set {WORKER_VARIABLE} in the environment "
        f"before the Spark session is created, or {WORKER_SETTING} for spark-submit, to a Python "
        f"that every executor has, with the driver's version ({sys.version_info[0]}."
        f"{sys.version_info[1]}) and the same spark-queryable-state[streaming]: "
        f"{WORKER_VARIABLE}={sys.executable} if the executors share the driver's folders",
        reason=Reason.UNSUPPORTED,
    )
