"""HTTP port of the metrics of one process."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING

from queryable_state.server.metrics.registry import CONTENT_TYPE
from queryable_state.server.process.rate_limited_log import RateLimitedLog
from queryable_state.server.serving.sockets.listening_socket import listening_socket
from queryable_state.wire.errors import AuthenticationError, QueryableStateError, RetryLaterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.server.security.server_tls import ServerTls

_log = RateLimitedLog(logging.getLogger(__name__))

_MOST_SCRAPES = 4
# For TLS, the request and the whole answer together: a scraper that sends or reads a byte now and
# then would else keep its thread.
_SCRAPE_S = 10.0


class MetricsServer:
    """Serves `GET /metrics` on threads of its own, so that a scraper never holds up the loop.

    At most 4 scrapes run at one time, each for at most 10 s; the connections beyond are closed.
    Call `add_port`, `start`, then `close`, which is idempotent.
    """

    def __init__(
        self,
        text: Callable[[], bytes],
        *,
        tls: ServerTls | None = None,
        authorize: Callable[[str], None] | None = None,
    ) -> None:
        """`text` makes the answer. `tls`: None serves in clear text. `authorize` gets the header
        `Authorization` and raises the refusal of a caller; None: everyone is answered."""
        self._text = text
        self._context = None if tls is None else tls.context()
        self._authorize = authorize
        self._free = threading.BoundedSemaphore(_MOST_SCRAPES)
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listening: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def add_port(self, address: str) -> int:
        """Binds HOST:PORT and returns the port; raises `RuntimeError` if it is in use."""
        self._listening = listening_socket(address)
        port: int = self._listening.getsockname()[1]
        return port

    def start(self) -> None:
        """Starts to answer, if a port was added."""
        if self._listening is not None:
            self._thread = threading.Thread(
                target=self._accept, args=(self._listening,), name="metrics", daemon=True
            )
            self._thread.start()

    def close(self) -> None:
        """Closes the port and the open connections."""
        listening, self._listening = self._listening, None
        self._closed.set()
        if listening is None:
            return
        # A thread that waits in accept is woken by a shutdown, not by a close.
        with contextlib.suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        if self._thread is not None:
            self._thread.join()
        with self._lock:
            still_open = tuple(self._open)
        for connection in still_open:
            _shut_down(connection)

    def _accept(self, listening: socket.socket) -> None:
        while not self._closed.is_set():
            try:
                connection, _ = listening.accept()
            except OSError as problem:
                if not self._closed.wait(0.1):
                    _log.write(logging.WARNING, "accept", "no scrape is accepted: %s", problem)
                continue
            if not self._free.acquire(blocking=False):
                _log.write(
                    logging.WARNING,
                    "busy",
                    "a scrape of the metrics is refused, because %d run already",
                    _MOST_SCRAPES,
                )
                connection.close()
                continue
            threading.Thread(
                target=self._serve, args=(connection,), name="scrape", daemon=True
            ).start()

    def _serve(self, connection: socket.socket) -> None:
        deadline = threading.Timer(_SCRAPE_S, _shut_down, (connection,))
        deadline.daemon = True
        try:
            with self._lock:
                self._open.add(connection)
            deadline.start()
            connection.settimeout(_SCRAPE_S)
            self._answer(connection)
        except OSError as problem:
            _log.write(logging.INFO, "scrape", "a scrape of the metrics ended: %s", problem)
        finally:
            deadline.cancel()
            with self._lock:
                self._open.discard(connection)
            connection.close()
            self._free.release()

    def _answer(self, connection: socket.socket) -> None:
        text, authorize = self._text, self._authorize

        class Handler(_ScrapeHandler):
            def answer(self) -> tuple[HTTPStatus, bytes, str]:
                return _answer_to(self.path, self.headers.get("Authorization", ""), text, authorize)

        if self._context is None:
            Handler(connection, ("", 0), None)  # type: ignore[arg-type]
            return
        with self._context.wrap_socket(connection.dup(), server_side=True) as encrypted:
            Handler(encrypted, ("", 0), None)  # type: ignore[arg-type]
            with contextlib.suppress(OSError):
                encrypted.unwrap().close()


class _ScrapeHandler(BaseHTTPRequestHandler):
    """One request of one connection."""

    server_version = "queryable-state"
    sys_version = ""

    def answer(self) -> tuple[HTTPStatus, bytes, str]:
        """Status, body and content type."""
        raise NotImplementedError

    def do_GET(self) -> None:
        status, body, content_type = self.answer()
        self.send_response(status)
        if status is HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the library's
        """Logs nothing: a scrape comes every few seconds."""


def _answer_to(
    path: str,
    authorization: str,
    text: Callable[[], bytes],
    authorize: Callable[[str], None] | None,
) -> tuple[HTTPStatus, bytes, str]:
    if path.partition("?")[0] not in ("/metrics", "/metrics/"):
        return _refusal(HTTPStatus.NOT_FOUND, "this port serves /metrics only")
    if authorize is not None:
        try:
            authorize(authorization)
        except AuthenticationError as refusal:
            return _refusal(HTTPStatus.UNAUTHORIZED, refusal.message)
        except RetryLaterError as refusal:
            return _refusal(HTTPStatus.SERVICE_UNAVAILABLE, refusal.message)
        except QueryableStateError as refusal:
            return _refusal(HTTPStatus.FORBIDDEN, refusal.message)
    return HTTPStatus.OK, text(), CONTENT_TYPE


def _refusal(status: HTTPStatus, message: str) -> tuple[HTTPStatus, bytes, str]:
    return status, f"{message}\n".encode(), "text/plain; charset=utf-8"


def _shut_down(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
