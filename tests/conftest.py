"""The environment of every test, and the choice of the tests that run by default."""

from __future__ import annotations

import argparse
import gc
import os
import re
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from tests import samples, seeds
from tests.samples import Sample

# Spark starts its Python workers with whatever python3 is on PATH unless told.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
    # Without bytecode each process compiles all that it imports, and pytest rewrites every test:
    # half the CPU time of a start. The folders of the sources stay clean.
    sys.dont_write_bytecode = False
    sys.pycache_prefix = os.environ.setdefault(
        "PYTHONPYCACHEPREFIX", str(Path(sys.prefix, "bytecode"))
    )
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As in the background of a shell; commands that are interrupted would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
# A short run spends more on optimizing and on threads that collect than it gains.
# With one compiler Java reserves so little for code that it drops some and compiles it anew.
os.environ.setdefault(
    "JDK_JAVA_OPTIONS",
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC",
)
# Of scripts/archive_spark_classes.py. A missing archive would also turn off that of Java itself.
_SPARK_CLASSES = Path(__file__).parents[1] / ".venv" / "spark-classes.jsa"
if _SPARK_CLASSES.exists():
    os.environ["JDK_JAVA_OPTIONS"] += (
        f' -XX:SharedArchiveFile="{_SPARK_CLASSES}" -Xlog:cds=off -Xlog:cds+dynamic=off'
    )

samples.register_profiles()
hypothesis.settings.load_profile("sample")

ON_REQUEST = {
    "slow": ("slow tests (restarts of drivers, killed executors)", "make test-slow"),
    "wide": ("slow tests with further backends, parallelism and seeds", "make test-wide"),
    "hostile": ("attacks on ports", "make hostile"),
    "standalone": ("tests of a deployment on a standalone cluster", "make test-cluster"),
}
"""Marks of the tests that run only on request: what they are, and the command that runs them."""

_OF_OTHER_SHARES = "other shares"

_left_out = pytest.StashKey[Counter[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option that runs a share of the chosen tests."""
    parser.addoption(
        "--sample",
        metavar="SEED/SHARES",
        type=_sample,
        help="run one of so many shares of the test files; SHARES seeds in a row run every test",
    )
    parser.addoption(
        "--seeds",
        metavar="SEEDS",
        type=seeds.parse,
        help="run only tests of random programs, with these seeds: 7, or 1-60,99",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Gives each test of random programs its seeds."""
    if seeds.ARGUMENT in metafunc.fixturenames:
        chosen = metafunc.config.option.seeds
        metafunc.parametrize(seeds.ARGUMENT, seeds.parameters(chosen))


def _sample(text: str) -> Sample:
    try:
        return Sample.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out tests on request, unless `-m` has their mark or an argument names their file."""
    named = {_file_of(config, argument) for argument in config.args}
    marks = [
        mark
        for mark in ON_REQUEST
        # With seeds only the tests of random programs are left.
        if config.option.seeds is None
        and not re.search(rf"\b{mark}\b", config.option.markexpr or "")
    ]
    left_out = {
        item: mark
        for item in items
        for mark in marks
        if item.get_closest_marker(mark) and item.path not in named
    }
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]
    config.stash[_left_out] = Counter(left_out.values())
    if config.option.sample is not None:
        _keep_sample(config, items)
    if config.option.seeds is not None:
        _keep_random(config, items)


def pytest_collection_finish() -> None:
    """Spares every collection of garbage the look at thousands of tests that stay to the end."""
    gc.collect()
    gc.freeze()


def _keep_random(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out all tests but those of random programs."""
    others = [item for item in items if seeds.ARGUMENT not in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if item not in others]


def _keep_sample(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the files of other shares; each process of a run chooses the same ones."""
    numbers = Counter(_scope_of(item) for item in items)
    chosen = config.option.sample.of(numbers)
    beyond = [item for item in items if _scope_of(item) not in chosen]
    config.hook.pytest_deselected(items=beyond)
    items[:] = [item for item in items if _scope_of(item) in chosen]
    config.stash[_left_out][_OF_OTHER_SHARES] = len(beyond)


def _scope_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tells the process that writes the summary, if this one only runs tests for it."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        left_out = session.config.stash[_left_out]
        output["left_out"] = dict(left_out.items())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Chooses the processes of tests when there are several (`-n 2`)."""
    from tests.shared_processes import SharedProcesses

    return SharedProcesses(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Takes what a worker of pytest-xdist left out; each collects the same tests."""
    node.config.stash[_left_out] = Counter(getattr(node, "workeroutput", {}).get("left_out", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says which tests were left out, and how to run them."""
    config = terminalreporter.config
    _write_outcomes(terminalreporter)
    for mark, number in config.stash.get(_left_out, Counter()).items():
        if mark == _OF_OTHER_SHARES:
            terminalreporter.write_line(
                f"left out: {number} tests of other shares than {config.option.sample}: "
                "another seed, or no --sample"
            )
            continue
        what, command = ON_REQUEST[mark]
        terminalreporter.write_line(f"left out: {number} {what}: {command}")


def _write_outcomes(terminalreporter: Any) -> None:
    """Counts the outcomes of random programs, and says what was refused."""
    found: list[dict[str, Any]] = [
        dict(report.user_properties)
        for reports in ("passed", "failed")
        for report in terminalreporter.stats.get(reports, ())
        if report.when == "call" and "program" in dict(report.user_properties)
    ]
    if not found:
        return
    outcomes = Counter(each.get("outcome", "wrong or failed") for each in found)
    counts = ", ".join(f"{number} {outcome}" for outcome, number in sorted(outcomes.items()))
    terminalreporter.write_line(f"random programs: {counts}")
    damaged = Counter(each["damaged"] for each in found if each.get("damaged"))
    if damaged:
        counts = ", ".join(f"{number} {outcome}" for outcome, number in sorted(damaged.items()))
        terminalreporter.write_line(f"with damaged files: {counts}")
    for each in found:
        if each.get("refusals"):
            terminalreporter.write_line(f"{each['program']}: {each['refusals']}")


def _file_of(config: pytest.Config, argument: str) -> Path:
    return config.invocation_params.dir / argument.partition("::")[0]
