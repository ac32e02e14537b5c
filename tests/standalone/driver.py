"""The driver of the job that the documentation deploys, started by spark-submit."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pyspark
from tests.chaos.processes import kill, under, until

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "deploy" / "spark-submit" / "orders_job.py"
SPARK_HOME = Path(pyspark.__file__).parent
START_S = 240.0


class Driver:
    """One `spark-submit` in client mode; all its processes work in its folder.

    The folder is also that of Python's and the JVM's temporary files, because a driver that is
    killed removes none of them.
    """

    def __init__(
        self, folder: Path, *, master: str, archive: Path, settings: Mapping[str, str]
    ) -> None:
        folder.mkdir(parents=True)
        self.log = folder / "log"
        self._folder = folder
        options = {
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            # On all addresses: executors reach the driver by the name of the machine.
            "spark.queryable_state.insecure": "true",
            "spark.pyspark.python": "./environment/bin/python",
            "spark.pyspark.driver.python": sys.executable,
            **settings,
        }
        self._command = [
            str(SPARK_HOME / "bin" / "spark-submit"),
            *("--master", master),
            *("--archives", f"{archive}#environment"),
            *(part for key, value in options.items() for part in ("--conf", f"{key}={value}")),
            str(PROGRAM),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")
        }
        environment |= {
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "TMPDIR": str(self._folder),
            "SPARK_SUBMIT_OPTS": f"-Djava.io.tmpdir={self._folder}",
        }
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                env=environment,
                cwd=self._folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.kill()

    def kill(self) -> None:
        """Kills the driver's Python and its JVM, which neither stops a job nor frees a port."""
        kill(*(process.pid for process in under(self._folder)))
        if self._process is not None:
            self._process.wait()
        until(lambda: not under(self._folder), 30.0, "the end of the driver")

    def until_listening(self, port: int) -> None:
        """Waits for the coordinator, which listens once the job is declared."""

        def listens() -> bool:
            self.require_running()
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        until(listens, START_S, "the start of the coordinator")

    def tail(self) -> str:
        """The end of the log, for a failed test."""
        return self.log.read_text(errors="replace")[-6000:]

    def require_running(self) -> None:
        """Fails with the log if the driver has ended."""
        assert self._process is not None
        assert self._process.poll() is None, f"the driver has ended:\n{self.tail()}"
