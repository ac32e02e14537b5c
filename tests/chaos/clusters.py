"""Two executors on this machine: of the driver's own, or of workers that outlive drivers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pyspark
from tests.chaos.processes import kill, until

if TYPE_CHECKING:
    from collections.abc import Mapping

HOST = "127.0.0.1"
_START_S = 60.0


class LocalCluster:
    """`local-cluster`: master and workers live in the driver's JVM and go with it."""

    master = "local-cluster[2,1,1024]"
    survives_its_driver = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._home = folder / "spark-home"

    @property
    def environment(self) -> Mapping[str, str]:
        """A Spark home whose `work` folder, where executors run, is our own."""
        return {"SPARK_HOME": str(self._home)}

    def __enter__(self) -> Self:
        self._home.mkdir(parents=True)
        for entry in Path(pyspark.__file__).parent.iterdir():
            if entry.name != "work":
                (self._home / entry.name).symlink_to(entry)
        (self._home / "work").mkdir()
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Nothing of its own runs."""


class StandaloneCluster:
    """A master and two workers, processes of their own: executors are started by nobody else."""

    survives_its_driver = True

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.master = f"spark://{HOST}:{free_port()}"
        self.environment: Mapping[str, str] = {}
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True)
        port = self.master.rpartition(":")[2]
        self._start("master", "master.Master", "-p", port)
        log = self.folder / "master" / "log"
        until(lambda: b"I have been elected leader" in log.read_bytes(), _START_S, "Spark's master")
        for name in ("worker-1", "worker-2"):
            work = str(self.folder / name)
            self._start(name, "worker.Worker", "-c", "1", "-m", "1g", "-d", work, self.master)
        until(
            lambda: log.read_bytes().count(b"Registering worker") == 2, _START_S, "Spark's workers"
        )
        return self

    def __exit__(self, *exc_info: object) -> None:
        for process in reversed(self._processes):
            process.send_signal(signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                kill(process.pid)
                process.wait()

    def _start(self, name: str, module: str, *arguments: str) -> None:
        home = Path(pyspark.__file__).parent
        folder = self.folder / name
        folder.mkdir()
        with (folder / "log").open("wb") as log:
            command = [str(home / "bin/spark-class"), f"org.apache.spark.deploy.{module}"]
            self._processes.append(
                subprocess.Popen(
                    [*command, "--host", HOST, "--webui-port", "0", *arguments],
                    env={
                        **os.environ,
                        "SPARK_HOME": str(home),
                        "SPARK_LOCAL_IP": HOST,
                        "SPARK_DAEMON_MEMORY": "256m",
                    },
                    cwd=folder,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )


Cluster = LocalCluster | StandaloneCluster


def free_port() -> int:
    """A port nobody listens on now, outside of the range that connections take theirs from."""
    for port in range(20_000 + os.getpid() % 5_000, 32_000):
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port
    raise RuntimeError("no free port from 20000 to 32000")
