"""The port of the metrics: what it answers, to whom, and that no scraper can hold it."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from typing import TYPE_CHECKING

import pytest
from tests.metrics.scraping import get
from tests.security.authority import Authority
from tests.waiting import DEADLINE_S

from queryable_state.server.metrics import metrics_server
from queryable_state.server.metrics.metrics_server import MetricsServer
from queryable_state.server.metrics.registry import CONTENT_TYPE
from queryable_state.server.security.server_tls import ServerTls
from queryable_state.wire.errors import AuthenticationError, PermissionDeniedError, RetryLaterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TEXT = b"up 1\n"


@contextlib.contextmanager
def serving(
    text: Callable[[], bytes] = lambda: TEXT,
    *,
    tls: ServerTls | None = None,
    authorize: Callable[[str], None] | None = None,
) -> Iterator[int]:
    server = MetricsServer(text, tls=tls, authorize=authorize)
    port = server.add_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.close()
        server.close()


def test_metrics_are_served_as_text_and_nothing_else_is() -> None:
    with serving() as port:
        status, text, headers = get(f"http://127.0.0.1:{port}/metrics?name[]=up")
        assert (status, text, headers["Content-Type"]) == (200, "up 1\n", CONTENT_TYPE)
        status, text, _ = get(f"http://127.0.0.1:{port}/")
        assert status == 404
        assert "/metrics" in text


@pytest.mark.parametrize(
    ("refusal", "status"),
    [
        (AuthenticationError("no token"), 401),
        (PermissionDeniedError("no grant"), 403),
        (RetryLaterError("busy", retry_after_ms=1), 503),
    ],
)
def test_a_refused_caller_gets_the_reason(refusal: Exception, status: int) -> None:
    def authorize(authorization: str) -> None:
        if authorization != "Bearer secret":
            raise refusal

    with serving(authorize=authorize) as port:
        found, text, _ = get(f"http://127.0.0.1:{port}/metrics")
        assert (found, text) == (status, f"{refusal}\n")
        assert get(f"http://127.0.0.1:{port}/metrics", "secret")[0] == 200


def test_metrics_are_served_over_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with serving(tls=ServerTls(authority.settings())) as port:
        context = ssl.create_default_context(cafile=authority.ca)
        assert get(f"https://localhost:{port}/metrics", context=context)[1] == "up 1\n"
        with pytest.raises(OSError, match=r"."):
            get(f"http://localhost:{port}/metrics")


def test_silent_scrapers_lose_their_connections_and_others_are_answered_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metrics_server, "_SCRAPE_S", 0.3)
    with serving() as port, contextlib.ExitStack() as stack:
        silent = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), DEADLINE_S))
            for _ in range(4)
        ]
        for each in silent:
            each.sendall(b"GET /metrics HTTP/1.0\r\n")
        beyond = stack.enter_context(socket.create_connection(("127.0.0.1", port), DEADLINE_S))
        # Closed at once: four are the limit.
        with contextlib.suppress(ConnectionResetError):
            assert beyond.recv(1) == b""
        for each in silent:
            with contextlib.suppress(ConnectionResetError):
                while each.recv(4096):
                    pass
        # The thread of a scrape may end a moment after its connection.
        for _ in range(100):
            with contextlib.suppress(OSError):
                if get(f"http://127.0.0.1:{port}/metrics")[0] == 200:
                    return
            threading.Event().wait(0.02)
        pytest.fail("no scrape is answered any more")


def test_closing_ends_a_scrape_that_still_runs() -> None:
    begun, ended = threading.Event(), threading.Event()

    def text() -> bytes:
        begun.set()
        ended.wait(DEADLINE_S)
        return TEXT

    server = MetricsServer(text)
    port = server.add_port("127.0.0.1:0")
    server.start()
    with socket.create_connection(("127.0.0.1", port), DEADLINE_S) as scraper:
        scraper.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert begun.wait(DEADLINE_S)
        server.close()
        assert scraper.recv(1) == b""
        ended.set()
    with pytest.raises(OSError, match=r"."):
        socket.create_connection(("127.0.0.1", port), 1.0)
