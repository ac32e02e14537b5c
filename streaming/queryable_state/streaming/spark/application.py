"""The coordinator and the Spark listeners of one SparkContext."""

from __future__ import annotations

import atexit
import logging
import threading
import time
from typing import TYPE_CHECKING, ClassVar

from py4j.protocol import Py4JError

from queryable_state.server.config.effective import effective_settings, sources_text
from queryable_state.server.coordinator import Coordinator
from queryable_state.server.coordinator.settings import CoordinatorSettings
from queryable_state.server.security.access.access_settings import AccessSettings
from queryable_state.server.security.access.protected_mode import check_listener
from queryable_state.server.security.tls_settings import TlsSettings
from queryable_state.server.serving.advertised import environment_host
from queryable_state.server.state_server.settings import StateServerSettings
from queryable_state.streaming.config.job_configuration import server_backend
from queryable_state.streaming.spark.driver_web import DriverWeb
from queryable_state.streaming.spark.queries.active_queries import live_executors
from queryable_state.streaming.spark.queries.listener import CommitListener
from queryable_state.streaming.spark.queries.scratch_folder import ScratchFolder
from queryable_state.streaming.spark.queries.spark_adapter import SparkAdapter
from queryable_state.streaming.spark.queries.spark_log import SparkLog
from queryable_state.streaming.spark.queries.stored_state import StoredState
from queryable_state.streaming.spark.server_start import ServerStarter
from queryable_state.streaming.spark.session import runs_on_one_machine, warn_of_risks
from queryable_state.streaming.spark.shipped_files import tls_on_this_machine
from queryable_state.streaming.spark.worker.worker_python import WorkerCheck
from queryable_state.wire.errors import QueryTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from queryable_state.server.settings.environment_settings import EnvironmentSettings

_log = logging.getLogger("queryable_state.streaming")

_LOOPBACK = "127.0.0.1"
_POLL_S = 0.2
_JVM_POLL_S = 2.0
_PROXY_POLL_S = 0.05


class SparkApplication:
    """The coordinator of one SparkContext, and its listeners.

    `of` creates it once per SparkContext, after a check that Spark's Python workers can run
    operators. All environments of the SparkContext share it, with the settings of the first one.
    `close` is idempotent; it is called when the SparkContext stops or the interpreter exits.
    """

    _running: ClassVar[dict[str, SparkApplication]] = {}
    _closing_now: ClassVar[set[SparkApplication]] = set()
    """Applications in `close`, for which the exit of the interpreter waits."""
    _workers: ClassVar[WorkerCheck] = WorkerCheck()
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, spark: SparkSession, settings: EnvironmentSettings) -> None:
        self._context = spark.sparkContext
        self.application_id: str = self._context.applicationId
        warn_of_risks(self._context)
        self._settings = settings.with_secret()
        _log.info(
            "settings of application %s: %s; print_effective_configuration() of an environment "
            "shows them",
            self.application_id,
            sources_text(effective_settings(settings)),
        )
        local = runs_on_one_machine(self._context)
        driver_host = "" if local else self._context.getConf().get("spark.driver.host", "") or ""
        self._host = settings.host or (_LOOPBACK if local else _every_address(driver_host))
        self.adapter = SparkAdapter(
            spark,
            ServerStarter(
                self._context, lambda: self.server_template, is_closed=lambda: self.closed
            ).start,
        )
        access = AccessSettings.from_settings(settings)
        # Else the tasks would fail, when they start the state servers.
        check_listener(
            self._host,
            what="query port of each state server",
            encrypted=self.tls.uses_tls,
            authenticated=access.authenticates,
            insecure=access.insecure,
        )
        self.coordinator = Coordinator(
            self.adapter,
            CoordinatorSettings.from_settings(
                self._settings,
                application=self.application_id,
                host=self._host,
                advertised_host=settings.coordinator_host or environment_host() or driver_host,
                ports=settings.coordinator_ports,
                tls=self.tls,
            ),
        )
        self.coordinator.start()
        if settings.checkpoint_directory:
            self.coordinator.publish_endpoint(
                settings.checkpoint_directory, settings.storage_options
            )
        self.stored = StoredState(self.coordinator)
        self.spark_log = SparkLog(self._context)
        self._scratch = ScratchFolder()
        self.web = DriverWeb(
            self._context,
            self._settings,
            coordinator_address=self.coordinator_address,
            host=self._host,
            tls=self.tls,
        )
        self._listeners: list[tuple[SparkSession, CommitListener]] = []
        self._closing = threading.Event()
        self._closed = threading.Event()
        self._watcher = threading.Thread(
            target=self._watch, name="queryable-state-application", daemon=True
        )
        self._watcher.start()

    @classmethod
    def of(cls, spark: SparkSession, settings: EnvironmentSettings) -> SparkApplication:
        """The application of a session's SparkContext; created if there is none."""
        with cls._lock:
            found = cls._running.get(spark.sparkContext.applicationId)
            if found is None or found.closed:
                cls._workers.check(spark.sparkContext, live_executors(spark.sparkContext))
                found = cls(spark, settings)
                cls._running[found.application_id] = found
            return found

    @classmethod
    def close_all(cls) -> None:
        """Closes all applications, at the exit of the interpreter."""
        with cls._lock:
            running = [*cls._running.values(), *cls._closing_now]
        for application in running:
            application.close()

    @property
    def closed(self) -> bool:
        """True once `close` was called."""
        return self._closing.is_set()

    @property
    def secret(self) -> str:
        """Secret of every call between the parts of the application."""
        return self._settings.secret

    @property
    def tls(self) -> TlsSettings:
        """TLS of the processes of the driver, with the paths of its machine."""
        return tls_on_this_machine(TlsSettings.from_settings(self._settings))

    @property
    def context(self) -> SparkContext:
        """The SparkContext of the application."""
        return self._context

    @property
    def coordinator_address(self) -> str:
        """HOST:PORT of the coordinator, as executors reach it."""
        return self.coordinator.address

    @property
    def secret_file(self) -> Path:
        """A file with the secret, for proxies that users start."""
        return self.coordinator.secret_file

    @property
    def server_template(self) -> StateServerSettings:
        """Settings of state servers; each executor adds its id and its folder."""
        settings = self._settings
        return StateServerSettings.from_settings(
            settings,
            coordinator_address=self.coordinator_address,
            executor_id="",
            host=self._host,
            backend=server_backend(settings),
        )

    def scratch_location(self) -> str:
        """URI of a new checkpoint location that is deleted with the application."""
        return self._scratch.location()

    def observe(self, session: SparkSession) -> None:
        """Adds a listener to a session, once: Spark notifies a session only of its own queries."""
        with self._lock:
            if any(observed is session for observed, _ in self._listeners):
                return
            listener = CommitListener(
                self.adapter, self.coordinator, self.stored.open, self.spark_log
            )
            session.streams.addListener(listener)
            self._listeners.append((session, listener))

    def proxy_addresses(self) -> list[str]:
        """HOST:PORT of the proxies of all live state servers."""
        return self.coordinator.proxy_addresses()

    def proxy_address(self, timeout_s: float, check: Callable[[], None] = lambda: None) -> str:
        """HOST:PORT of a proxy; calls `check` while it waits for the first one.

        Raises QueryTimeoutError after `timeout_s`.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            addresses = self.proxy_addresses()
            if addresses:
                return addresses[0]
            check()
            if time.monotonic() >= deadline:
                raise QueryTimeoutError(
                    f"no state server has started within {timeout_s:g} s: the first task of a "
                    "stateful operator starts one. Check that a job runs and has input"
                )
            time.sleep(_PROXY_POLL_S)

    def close(self) -> None:
        """Stops the state servers and the coordinator, and waits for their end."""
        with self._lock:
            if self._closing.is_set():
                first = False
            else:
                first = True
                self._closing.set()
                self._running.pop(self.application_id, None)
                self._closing_now.add(self)
        if not first:
            self._closed.wait()
            return
        try:
            self._stop_listening()
            self.spark_log.close()
        finally:
            self.web.close()
            self.coordinator.close()
            self._scratch.remove()
            self._closed.set()
            self._closing_now.discard(self)

    def _stop_listening(self) -> None:
        listeners, self._listeners = self._listeners, []
        if self._context._jsc is None:
            return
        for session, listener in listeners:
            try:
                session.streams.removeListener(listener)
            except (Py4JError, OSError, AttributeError):
                # Spark is stopping, and its listeners with it.
                return

    def _watch(self) -> None:
        """Closes the application once the SparkContext has stopped, in Python or in the JVM."""
        since_jvm_poll_s = 0.0
        while not self._closing.wait(_POLL_S):
            since_jvm_poll_s += _POLL_S
            if self._context._jsc is not None:
                if since_jvm_poll_s < _JVM_POLL_S:
                    continue
                since_jvm_poll_s = 0.0
                if not self._jvm_stopped():
                    continue
            _log.info("Spark has stopped: stopping the coordinator and the state servers")
            self.close()
            return

    def _jvm_stopped(self) -> bool:
        try:
            return bool(self._context._jsc.sc().isStopped())
        except (Py4JError, OSError, AttributeError):
            return True


def _every_address(driver_host: str) -> str:
    """All addresses of a machine: of IPv6 too if Spark uses it."""
    return "::" if ":" in driver_host else "0.0.0.0"


# `atexit` functions run after thread pools have stopped accepting work, and the coordinator needs
# its pool to shut the servers down.
getattr(threading, "_register_atexit", atexit.register)(SparkApplication.close_all)
