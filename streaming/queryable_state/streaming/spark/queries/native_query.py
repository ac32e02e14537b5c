"""Server process for a query of plain Structured Streaming, started from its driver."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from queryable_state.server.native_state.files.query_name import query_name
from queryable_state.server.process.child_module import start_module, tail_of
from queryable_state.wire.errors import InvalidRequestError, RetryLaterError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_log = logging.getLogger(__name__)

_START_S = 60.0
_END_S = 15.0
_WEB = "web at "


class NativeQuery:
    """The server of one query's state. A context manager; `close` is idempotent.

    It ends with the query, with the driver, or with `close`.
    """

    address: str
    """HOST:PORT for clients, which name the query as `name`."""

    web_address: str
    """URL of REST and the page; empty if `web` is off."""

    def __init__(self, query: StreamingQuery, name: str, settings: dict[str, Any]) -> None:
        self.name = name
        """The name of the query for clients."""
        self.address = self.web_address = ""
        self._has_web = settings.get("web") != "off"
        self._started = threading.Event()
        self._folder = tempfile.TemporaryDirectory(prefix="queryable-state-native-")
        self._log_path = Path(self._folder.name) / "server.log"
        self._process = self._start(settings)
        for what, run in (("output", self._read), ("query", lambda: self._end_with(query))):
            threading.Thread(target=run, name=f"queryable-state-native-{what}", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def is_running(self) -> bool:
        """True until the process of the server has ended."""
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        """Process id of the server."""
        return self._process.pid

    def wait_started(self, timeout_s: float) -> None:
        """Waits until the server answers; raises its own error, or `RetryLaterError`."""
        ended = None
        if self._started.wait(timeout_s):
            if self.address:
                return
            # It closes its output a little before it ends.
            ended = self._process.wait(_END_S)
        tail = tail_of(self._log_path)
        self.close()
        if ended is None:
            raise RetryLaterError(
                f"the server of query {self.name!r} is not up after {timeout_s:g} s: the query may "
                f"have committed no batch; its log ends with:\n{tail}"
            )
        raise InvalidRequestError(
            f"the server of query {self.name!r} has ended (exit code {ended}); its log ends "
            f"with:\n{tail}"
        )

    def close(self) -> None:
        """Ends the server and waits for its end."""
        process = self._process
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._folder.cleanup()

    def _start(self, settings: dict[str, Any]) -> subprocess.Popen[str]:
        environment = {
            f"QUERYABLE_STATE_{name.upper()}": _text(value) for name, value in settings.items()
        }
        with self._log_path.open("w") as log:
            return start_module("queryable_state.cli", "serve", log=log, environment=environment)

    def _read(self) -> None:
        """Reads the addresses that the server prints."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(_WEB):
                self.web_address = line.removeprefix(_WEB).strip()
                self._started.set()
            else:
                self.address = line.rstrip().rpartition(" at ")[2]
                if not self._has_web:
                    self._started.set()
        self._started.set()

    def _end_with(self, query: StreamingQuery) -> None:
        try:
            query.awaitTermination()
        except Exception as failure:  # noqa: BLE001 - the query's own error, which Spark reports
            _log.debug("query %s has failed: %s", self.name, failure)
        self.close()


def serve_query(
    query: StreamingQuery, name: str = "", *, timeout_s: float = _START_S, **settings: Any
) -> NativeQuery:
    """Serves the state of a running query of plain Structured Streaming, and follows it.

    Starts one process on this machine, which reads the query's checkpoint; the query itself is not
    touched. Waits for the query's first batch and for the load of its state, at most `timeout_s`.
    `name` is that by which clients name the query: by default its `queryName`, else the name that
    `queryable-state serve` gives it. `settings` are those of `queryable-state serve`
    (docs/settings.md), as `host="0.0.0.0"` or `lazy=True`.

    Raises `InvalidRequestError` for a query without a checkpoint that this machine reads, or
    without state; `RetryLaterError` if there is no answer in time.
    """
    root = str(_execution(query).resolvedCheckpointRoot())
    name = name or query.name or query_name(root)
    served = NativeQuery(
        query,
        name,
        {
            "proxy_ports": 0,
            "proxy_frame_ports": 0,
            "follow": True,
            **settings,
            "spark_checkpoint": root,
            "name": name,
            "stop_with_pid": os.getpid(),
        },
    )
    served.wait_started(timeout_s)
    return served


def _execution(query: StreamingQuery) -> Any:
    wrapper: Any = getattr(query, "_jsq", None)
    if wrapper is None:
        raise InvalidRequestError(
            "serve_query needs a query of a classic Spark session: with Spark Connect run "
            "`queryable-state serve --spark-checkpoint URI --follow` beside its driver"
        )
    return wrapper.streamingQuery()


def _text(value: Any) -> str:
    """A setting as an environment variable has it."""
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return json.dumps(value) if isinstance(value, dict | bool) else str(value)
