"""The entry point of the Spark image, with what Spark on Kubernetes passes to it."""

from __future__ import annotations

import os
import subprocess
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


def test_an_executor_gets_its_options_in_order_and_its_address(path: str) -> None:
    """The address is the state server's too; options may have spaces, and there are over ten."""
    options = {f"SPARK_JAVA_OPT_{number}": f"-Do{number}=a b" for number in range(12)}
    words = _started(path, EXECUTOR | options, "executor")
    assert words[0] == "java"
    assert words[1:13] == [f"-Do{number}=a b" for number in range(12)]
    assert words[words.index("-cp") + 1].split(":")[0] == "/opt/spark/jars/*"
    assert words[words.index("--hostname") + 1] == "10.1.2.3"
    assert words[words.index("--driver-url") + 1] == EXECUTOR["SPARK_DRIVER_URL"]
    assert words[words.index("--podName") + 1] == "orders-exec-3"


def test_an_executor_without_options_starts(path: str) -> None:
    assert _started(path, EXECUTOR, "executor")[:2] == ["java", "-Xms1g"]


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
