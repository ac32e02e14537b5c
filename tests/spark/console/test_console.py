"""What a job writes to the console of its program."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from tests.killed_programs import temporary_files_in

# Each program starts a Spark of its own.
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

_PROGRAMS = Path(__file__).parent / "programs.py"
_OUR_LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ queryable_state[\w.]*: .+")
# Of the JVM, of gRPC and asyncio.
_STACKS = re.compile(
    r"^\tat |StackOverflowError|Event loop is closed|Task was destroyed|never retrieved"
)
# Spark's own lines, with their stacks, about tasks, blocks, messages and commands that a stop ends.
_STOPS_OF_SPARK = re.compile(
    r" (WARN|ERROR) (TaskSchedulerImpl|TaskContextImpl|BlockManager|Inbox|Dispatcher|Utils|Shell): "
)
_STACK_OF_A_STOP = re.compile(
    r"\tat |\t\.\.\. \d+ more$|(Caused by: )?[\w.$]+(Exception|Error)(: .*)?$"
)


def output_of(name: str, folder: Path, *arguments: str, code: int = 0) -> list[str]:
    """The lines that a program writes, to both outputs together."""
    ended = subprocess.run(
        [sys.executable, str(_PROGRAMS), name, *arguments],
        env=os.environ | temporary_files_in(folder / "tmp") | {"CONSOLE_MARK": uuid.uuid4().hex},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=500,
        check=False,
    )
    lines = without_stops_of_spark(ended.stdout.splitlines())
    assert ended.returncode == code, ended.stdout
    assert not [line for line in lines if _STACKS.search(line)], ended.stdout
    assert not [line for line in lines if "queryable_state" in line and is_bare(line)], ended.stdout
    return lines


def without_stops_of_spark(lines: list[str]) -> list[str]:
    """The lines without Spark's own about what a stop of a query, or of Spark, cuts off."""
    kept: list[str] = []
    is_of_a_stop = False
    for line in lines:
        if _STOPS_OF_SPARK.search(line):
            is_of_a_stop = True
        elif not _STACK_OF_A_STOP.match(line):
            is_of_a_stop = False
        if not is_of_a_stop:
            kept.append(line)
    return kept


def is_bare(line: str) -> bool:
    """True for a log line of ours without time and level."""
    return bool(re.match(r"(WARNING|ERROR):queryable_state", line))


def since(text: str, lines: list[str]) -> list[str]:
    """The lines from the first one with this text on."""
    return lines[next(at for at, line in enumerate(lines) if text in line) :]


def test_a_function_that_fails_costs_about_twenty_lines(tmp_path: Path) -> None:
    """The task's line, Spark's, the query's, and the traceback of the program with the user's."""
    failure = since("ZeroDivisionError", output_of("failing_function", tmp_path, code=1))
    assert len(failure) <= 32, "\n".join(failure)
    assert _OUR_LINE.fullmatch(failure[0])
    assert "a task failed: operator 'counter'" in failure[0]
    assert f"{_PROGRAMS}:" in failure[0]
    text = "\n".join(failure)
    assert text.count("return 10 // (5 - count)") == 1
    assert re.search(r"for key 'key_\d'", text)


def test_a_sink_that_fails_is_one_line_of_the_query(tmp_path: Path) -> None:
    """Also if the program does not wait for the job: Spark's own message is left out."""
    lines = output_of("failing_sink", tmp_path)
    failure = since("the database refused", lines)
    assert _OUR_LINE.fullmatch(failure[0])
    assert "query 'writing' failed: the sinks failed in batch 0: ConnectionError" in failure[0]
    assert f"{_PROGRAMS}:" in failure[0]
    assert [line for line in failure if "UserFunctionError FAILED" in line]
    assert len(failure) <= 5, "\n".join(failure)


def test_a_cancelled_job_ends_without_an_error(tmp_path: Path) -> None:
    """In its first batch, whose function Spark interrupts."""
    lines = output_of("cancelled_in_its_first_batch", tmp_path)
    assert "None CANCELED" in lines
    assert not [line for line in lines if "terminated with error" in line]
    assert not [
        line for line in lines if re.search(r" ERROR .*(MicroBatchExecution|queryable)", line)
    ]


def test_a_program_ends_quietly_while_a_client_is_open(tmp_path: Path) -> None:
    lines = output_of("stopped_with_a_client", tmp_path)
    assert since("10", lines)
    assert not [line for line in lines if "Traceback" in line], "\n".join(lines)


def test_a_lost_server_is_replaced_without_warnings(tmp_path: Path) -> None:
    """Nothing is lost that the user has to know of: one line of INFO."""
    lines = output_of("lost_server", tmp_path, f"file://{tmp_path}/checkpoints")
    after = since("killed", lines)
    told = after[: after.index("went on RUNNING")]
    assert not [line for line in told if " WARN" in line or " ERROR " in line], "\n".join(told)
