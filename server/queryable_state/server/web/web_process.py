"""Web process of a driver: a proxy with a web port that ends with the driver."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from queryable_state.server.config.limits import Limits
from queryable_state.server.process.child_module import start_module, tail_of
from queryable_state.server.security.access.access_settings import AccessSettings
from queryable_state.server.security.tls_settings import TlsSettings
from queryable_state.server.settings.proxy_settings import ProxySettings
from queryable_state.wire.errors import InvalidRequestError, RetryLaterError

if TYPE_CHECKING:
    import subprocess

    from queryable_state.wire.errors import QueryableStateError

_log = logging.getLogger(__name__)

READY = "web at "
"""Begins the line with the URL, which the process prints once it answers."""

WRONG_SETTINGS = 78
"""Exit code (EX_CONFIG of sysexits.h) after which another start would fail too."""

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0
_END_S = 5.0


def _without_origins(items: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in items if name != "origins"}


def settings_json(settings: ProxySettings, watched_pid: int) -> str:
    """The settings, secret included, for the standard input of the process."""
    fields = dataclasses.asdict(settings, dict_factory=_without_origins)
    return json.dumps({"settings": fields, "watched_pid": watched_pid})


def settings_of(text: str) -> tuple[ProxySettings, int]:
    """Inverse of `settings_json`."""
    given: dict[str, Any] = json.loads(text)
    fields = given["settings"]
    return (
        ProxySettings(
            **fields
            | {
                "coordinators": tuple(fields["coordinators"]),
                "limits": Limits(**fields["limits"]),
                "tls": TlsSettings(**fields["tls"]),
                "access": AccessSettings(**fields["access"]),
            }
        ),
        given["watched_pid"],
    )


class WebProcess:
    """Runs the process, and starts it again if it ends, until `close`. Thread-safe.

    The constructor does not wait for the start. A failure is logged with the end of the process's
    log; it never fails the driver. Wrong settings end it for good.
    """

    def __init__(self, settings: ProxySettings) -> None:
        self._settings = settings
        self._changed = threading.Condition()
        self._closing = False
        self._address = ""
        self._failure: QueryableStateError | None = None
        self._process: subprocess.Popen[str] | None = None
        self._folder = Path(tempfile.mkdtemp(prefix="queryable-state-web-"))
        self._log_path = self._folder / "web.log"
        self._thread = threading.Thread(target=self._run, name="queryable-state-web", daemon=True)
        self._thread.start()

    @property
    def has_address(self) -> bool:
        """True while the web process runs and its address is known."""
        return bool(self._address)

    def address(self, timeout_s: float) -> str:
        """The URL of REST and the page; waits for the start, also for the next one after a failure.

        Raises at once why the process can never start, or `RetryLaterError` after `timeout_s`.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self._address or self._is_given_up or self._closing, timeout_s
            )
            if self._address:
                return self._address
            if self._failure is not None:
                raise self._failure.copy()
        raise RetryLaterError(
            f"the web process is not up after {timeout_s:g} s; its log ends with:\n"
            f"{tail_of(self._log_path)}",
            retry_after_ms=1000,
        )

    @property
    def _is_given_up(self) -> bool:
        """True after a failure that another start would repeat."""
        return isinstance(self._failure, InvalidRequestError)

    def close(self) -> None:
        """Ends the process and waits for its end; idempotent."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            process = self._process
        if process is not None:
            process.terminate()
        self._thread.join(_END_S)
        if process is not None and process.poll() is None:
            process.kill()
            process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            begun_s = time.monotonic()
            ended = self._run_once()
            with self._changed:
                self._address = ""
                if self._closing:
                    return
                self._failure = ended
                self._changed.notify_all()
            if isinstance(ended, InvalidRequestError):
                _log.error("REST and the page are not served: %s", ended)
                return
            _log.warning("REST and the page are away: %s", ended)
            if time.monotonic() - begun_s > _LONGEST_PAUSE_S:
                pause_s = _FIRST_PAUSE_S
            with self._changed:
                if self._changed.wait_for(lambda: self._closing, pause_s):
                    return
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _run_once(self) -> QueryableStateError:
        """Runs the process until it ends; returns why it did."""
        try:
            process = self._start()
        except OSError as problem:
            return RetryLaterError(f"the web process cannot start: {problem}", retry_after_ms=1000)
        if process is None:
            return RetryLaterError("the web process is closed")
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(READY):
                with self._changed:
                    self._address, self._failure = line.removeprefix(READY).strip(), None
                    self._changed.notify_all()
                _log.info("REST and the page are at %s", self._address)
        code = process.wait()
        tail = tail_of(self._log_path)
        message = f"the web process has ended (exit code {code}); its log ends with:\n{tail}"
        if code == WRONG_SETTINGS:
            return InvalidRequestError(message)
        return RetryLaterError(message, retry_after_ms=1000)

    def _start(self) -> subprocess.Popen[str] | None:
        """Starts the process, unless `close` was called."""
        with self._changed, self._log_path.open("w") as log:
            if self._closing:
                return None
            self._process = start_module(
                "queryable_state.server.web",
                log=log,
                given=settings_json(self._settings, os.getpid()),
            )
            return self._process
