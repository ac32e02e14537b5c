"""The entry point of the Spark image, with what Spark on Kubernetes passes to it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

ENTRYPOINT = Path(__file__).parents[2] / "deploy" / "docker" / "entrypoint.sh"

EXECUTOR = {
    "SPARK_HOME": "/opt/spark",
    "SPARK_EXECUTOR_MEMORY": "1g",
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@driver:7078",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.1.2.3",
    "SPARK_EXECUTOR_POD_NAME": "orders-exec-3",
    "SPARK_RESOURCE_PROFILE_ID": "0",
}


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH whose `tini` prints the command that it would run, a word a line."""
    tini = tmp_path / "tini"
    tini.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    tini.chmod(0o700)
    return f"{tmp_path}:{os.environ['PATH']}"


def _started(path: str, environment: dict[str, str], *arguments: str) -> list[str]:
    finished = subprocess.run(
        [str(ENTRYPOINT), *arguments],
        env=environment | {"PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    words = finished.stdout.splitlines()
    assert words[:2] == ["-s", "--"]
    return words[2:]


def _attended(path: str, environment: dict[str, str]) -> list[str]:
    """The command of the executor, which the entry point attends to."""
    words = _started(path, environment, "executor")
    assert words[:2] == [str(ENTRYPOINT), "attended-executor"]
    return words[2:]


def test_an_executor_gets_its_options_in_order_and_its_address(path: str) -> None:
    """The address is the state server's too; options may have spaces, and there are over ten."""
    options = {f"SPARK_JAVA_OPT_{number}": f"-Do{number}=a b" for number in range(12)}
    words = _attended(path, EXECUTOR | options)
    assert words[0] == "java"
    assert words[1:13] == [f"-Do{number}=a b" for number in range(12)]
    assert words[words.index("-cp") + 1].split(":")[0] == "/opt/spark/jars/*"
    assert words[words.index("--hostname") + 1] == "10.1.2.3"
    assert words[words.index("--driver-url") + 1] == EXECUTOR["SPARK_DRIVER_URL"]
    assert words[words.index("--podName") + 1] == "orders-exec-3"


def test_an_executor_without_options_starts(path: str) -> None:
    assert _attended(path, EXECUTOR)[:2] == ["java", "-Xms1g"]


def test_a_driver_runs_spark_submit_in_client_mode(path: str) -> None:
    words = _started(
        path, {"SPARK_DRIVER_BIND_ADDRESS": "10.0.0.1"}, "driver", "local:///opt/jobs/job.py", "x y"
    )
    assert words == [
        "spark-submit",
        "--conf",
        "spark.driver.bindAddress=10.0.0.1",
        "--deploy-mode",
        "client",
        "local:///opt/jobs/job.py",
        "x y",
    ]


def test_any_other_command_runs_as_it_is(path: str) -> None:
    assert _started(path, {}, "spark-submit", "--version") == ["spark-submit", "--version"]


def test_a_job_runs_spark_submit(path: str) -> None:
    words = _started(path, {}, "job", "--properties-file", "spark.conf", "job.py")
    assert words[:2] == [str(ENTRYPOINT), "attended-job"]
    assert words[2:] == ["spark-submit", "--properties-file", "spark.conf", "job.py"]


class Container:
    """The entry point below `tini`, with programs of the test in place of the image's.

    `pgrep` finds a state server until the file `drained` exists.
    """

    def __init__(self, folder: Path, *command: str) -> None:
        self.folder = folder
        self._program("pgrep", 'echo "$@" > asked; [ ! -e drained ]')
        self.process = subprocess.Popen(
            [str(ENTRYPOINT), *command],
            env={"PATH": f"{folder}:{os.environ['PATH']}"},
            cwd=folder,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def _program(self, name: str, body: str) -> None:
        file = self.folder / name
        file.write_text(f"#!/bin/sh\n{body}\n")
        file.chmod(0o700)

    def wait_for(self, name: str) -> str:
        """The content of a file, once it is complete."""
        end_s = time.monotonic() + 20
        while time.monotonic() < end_s:
            content = (self.folder / name).read_text() if (self.folder / name).exists() else ""
            if content.endswith("\n"):
                return content.strip()
            time.sleep(0.01)
        raise AssertionError(f"no {name} in time")

    def end(self) -> None:
        """Kills what the test left running."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.communicate()


RUNNING = "trap 'echo TERM > got; exit 143' TERM; echo > up; while :; do sleep 0.05; done"


@pytest.mark.parametrize(("program", "code"), [(RUNNING, 143), ("echo > up; exit 7", 7)])
def test_an_executors_container_stays_until_its_state_server_has_left(
    tmp_path: Path, program: str, code: int
) -> None:
    """After a SIGTERM as after a failure, whose exit code it passes on."""
    container = Container(tmp_path, "attended-executor", "sh", "-c", program)
    try:
        container.wait_for("up")
        if program == RUNNING:
            container.process.terminate()
            assert container.wait_for("got") == "TERM"
        assert "state_server" in container.wait_for("asked")
        assert container.process.poll() is None
        (tmp_path / "drained").touch()
        assert container.process.wait(20) == code
    finally:
        container.end()


def test_a_job_that_ended_is_not_run_again_until_the_container_is_stopped(tmp_path: Path) -> None:
    container = Container(tmp_path, "attended-job", "sh", "-c", "echo ran >> runs")
    try:
        assert container.process.stderr is not None
        assert "not run again" in container.process.stderr.readline()
        assert container.wait_for("runs") == "ran"
        assert container.process.poll() is None
        container.process.terminate()
        assert container.process.wait(20) == 0
    finally:
        container.end()


def test_a_job_that_fails_ends_its_container(tmp_path: Path) -> None:
    container = Container(tmp_path, "attended-job", "sh", "-c", "exit 3")
    assert container.process.wait(20) == 3
    container.end()


def test_a_job_is_stopped_with_its_container(tmp_path: Path) -> None:
    container = Container(tmp_path, "attended-job", "sh", "-c", RUNNING)
    container.wait_for("up")
    container.process.terminate()
    assert container.process.wait(20) == 143
    assert container.wait_for("got") == "TERM"
    container.end()
