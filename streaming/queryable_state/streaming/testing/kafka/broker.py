"""A Kafka broker of one node for tests and examples: a process that can be stopped and killed."""

from __future__ import annotations

import base64
import logging
import os
import random
import re
import signal
import socket
import subprocess
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from queryable_state.streaming.testing.kafka.jars import java, read_jars, resolve

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future

_PINNED: Final = Path(__file__).with_name("broker.jars")
_JVM: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_SHOWN_LINES: Final = 20
_CALL_TIMEOUT_S: Final = 30.0
_POLL_S: Final = 0.05
# Below those that Linux gives to outgoing connections.
_PORTS: Final = range(20_000, 32_768)

# The broker ends with the program that started it, however that ends: the end of the pipe on
# standard input is the sign. The shell's own output is the process id.
_GUARDED: Final = """
exec 3<&0
"$@" >>"$LOG" 2>&1 3<&- &
broker=$!
echo $broker
{ cat <&3 >/dev/null; kill -KILL $broker; } >/dev/null 2>&1 &
wait $broker
"""

_log = logging.getLogger("queryable_state.streaming.testing")
_quiet = logging.getLogger("queryable_state.streaming.testing.librdkafka")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False


class BrokerError(RuntimeError):
    """The broker does not start or has ended; the message has the end of its log."""


class KafkaBroker:
    """One broker, which is its own controller, on loopback ports of its own.

    with KafkaBroker(tmp_path / "kafka") as broker:
        broker.create_topic("clicks", partitions=2)
        ...  # clients use broker.bootstrap_servers

    Topics, records and ports stay over `stop`, `kill` and `start`. The broker ends with the process
    that started it. Its methods may be called from one thread at a time.
    """

    def __init__(
        self,
        folder: Path,
        *,
        jars_folder: Path | None = None,
        ivy_settings: Path | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """A broker that keeps its files in `folder`; the jars are downloaded once.

        A folder of an earlier broker has its topics, records and ports. `properties` are added to
        `server.properties`. Raises JarsUnavailableError if Java is missing or the jars cannot be
        downloaded.
        """
        self._folder = folder
        self._classpath = os.pathsep.join(
            map(str, resolve(read_jars(_PINNED), jars_folder, ivy_settings=ivy_settings))
        )
        self._java = java()
        self._properties = properties or {}
        self._guard: subprocess.Popen[str] | None = None
        self._pid = 0
        self._admin: AdminClient | None = None
        self._configured = folder / "server.properties"
        self._port, self._controller_port = self._kept_ports() or _free_ports(2)

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT for clients; the same after a restart."""
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        """Process id of the running broker; raises BrokerError if it does not run."""
        if not self.is_running:
            raise BrokerError(f"the broker in {self._folder} does not run")
        return self._pid

    @property
    def is_running(self) -> bool:
        """True while the process lives."""
        return self._guard is not None and self._guard.poll() is None

    @property
    def log_file(self) -> Path:
        """What the broker has printed, over all its starts."""
        return self._folder / "broker.log"

    def start(self, timeout_s: float = 60.0) -> None:
        """Starts the broker and waits until it answers clients.

        Raises BrokerError if it ends, does not answer in time, or runs already.
        """
        if self.is_running:
            raise BrokerError(f"the broker in {self._folder} runs already (pid {self._pid})")
        self._write_settings()
        if not (self._folder / "data").exists():
            self._format()
        self._guard = subprocess.Popen(
            ["sh", "-c", _GUARDED, "sh", *self._command("kafka.Kafka"), str(self._configured)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "LOG": str(self.log_file)},
            text=True,
            # Ctrl-C at a terminal is for the program, which stops the broker last.
            start_new_session=True,
        )
        assert self._guard.stdout is not None
        self._pid = int(self._guard.stdout.readline())
        try:
            self._wait_until_ready(timeout_s)
        except BaseException:
            self.kill()
            raise
        _log.info("Kafka broker at %s (pid %d)", self.bootstrap_servers, self._pid)

    def stop(self, timeout_s: float = 30.0) -> None:
        """Ends the broker in order, or kills it after the time; does nothing if it does not run."""
        if self.is_running:
            os.kill(self._pid, signal.SIGTERM)
        self._wait_for_end(timeout_s)

    def kill(self) -> None:
        """Ends the broker by SIGKILL; does nothing if it does not run."""
        self._wait_for_end(0.0)

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Creates a topic; raises KafkaException if it exists or the broker does not answer."""
        _result(self._client().create_topics([NewTopic(name, partitions)]), name)

    def add_partitions(self, name: str, total: int) -> None:
        """Grows a topic to `total` partitions; raises KafkaException if it has as many."""
        _result(self._client().create_partitions([NewPartitions(name, total)]), name)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def _write_settings(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        draft = self._configured.with_suffix(".draft")
        draft.write_text("".join(f"{key}={value}\n" for key, value in self._settings().items()))
        draft.replace(self._configured)

    def _format(self) -> None:
        """Writes the metadata of an empty broker."""
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        tool = [*self._command("kafka.tools.StorageTool"), "format", f"--cluster-id={cluster}"]
        done = subprocess.run(
            [*tool, "-c", str(self._configured)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise BrokerError(f"{self._folder} cannot be formatted: {done.stdout}{done.stderr}")

    def _kept_ports(self) -> list[int]:
        """Those of an earlier broker with this folder; empty if there was none."""
        if not self._configured.exists():
            return []
        (listeners,) = re.findall("(?m)^listeners=(.*)", self._configured.read_text())
        return [int(port) for port in re.findall(r":(\d+)", listeners)]

    def _settings(self) -> dict[str, str]:
        listeners = f"PLAINTEXT://127.0.0.1:{self._port}"
        controller = f"127.0.0.1:{self._controller_port}"
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"{listeners},CONTROLLER://{controller}",
            "advertised.listeners": listeners,
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@{controller}",
            "log.dirs": str(self._folder / "data"),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            # A killed broker can register again only after its session.
            "broker.session.timeout.ms": "4000",
            "broker.heartbeat.interval.ms": "500",
            "auto.create.topics.enable": "false",
            **self._properties,
        }

    def _command(self, main: str) -> list[str]:
        return [self._java, *_JVM, "-cp", self._classpath, main]

    def _client(self) -> AdminClient:
        if self._admin is None:
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap_servers}, logger=_quiet)
        return self._admin

    def _wait_until_ready(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while True:
            if not self.is_running:
                raise BrokerError(f"the broker has ended at its start:\n{self._end_of_log()}")
            try:
                # First by a plain connection: librdkafka waits longer after each failure.
                socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
                self._client().list_topics(timeout=1)
            except (OSError, KafkaException):
                if time.monotonic() > deadline:
                    raise BrokerError(
                        f"the broker at {self.bootstrap_servers} does not answer within "
                        f"{timeout_s:g} s:\n{self._end_of_log()}"
                    ) from None
                time.sleep(_POLL_S)
            else:
                return

    def _wait_for_end(self, timeout_s: float) -> None:
        guard, self._guard = self._guard, None
        if guard is None:
            return
        assert guard.stdin is not None
        assert guard.stdout is not None
        try:
            if timeout_s:
                guard.wait(timeout_s)
        except subprocess.TimeoutExpired:
            _log.warning("Kafka broker %d has not ended in %g s: killed", self._pid, timeout_s)
        guard.stdin.close()
        guard.wait()
        guard.stdout.close()

    def _end_of_log(self) -> str:
        return "\n".join(self.log_file.read_text().splitlines()[-_SHOWN_LINES:])


def _result(futures: Mapping[str, Future[None]], name: str) -> None:
    futures[name].result(_CALL_TIMEOUT_S)


def _free_ports(count: int) -> list[int]:
    """Ports that are free now, all different, and that no outgoing connection is given: a broker
    that is started again needs the same ones."""
    free: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        free.append(port)
        if len(free) == count:
            return free
    raise BrokerError(f"no port of {_PORTS[0]} to {_PORTS[-1]} is free on 127.0.0.1")
