"""Loop that accepts connections on a listening socket."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from queryable_state.server.process.rate_limited_log import RateLimitedLog

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

# Pause after an error of `accept`, such as too many open files.
_PAUSE_S = 1.0
_ACCEPTED_A_TURN = 64

_log = RateLimitedLog(logging.getLogger(__name__))


class AcceptLoop:
    """Accepts connections on a listening socket, which it owns, until `close`.

    The event loop's own servers report a TLS connection only after its handshake; this one
    reports each at once, so that open handshakes can be counted.
    """

    def __init__(
        self,
        listening: socket.socket,
        accepted: Callable[[socket.socket], None],
        *,
        what: str,
        has_room: Callable[[], bool] = lambda: True,
    ) -> None:
        """`accepted` gets each connection. Connections wait in the backlog of the socket while
        `has_room`, which is asked before each, is false; `what` names the port in the log."""
        self._loop = asyncio.get_running_loop()
        self._listening = listening
        self._accepted = accepted
        self._what = what
        self._has_room = has_room
        self._resuming: asyncio.TimerHandle | None = None
        self._accepting = self._closed = False
        listening.setblocking(False)
        self.resume()

    def resume(self) -> None:
        """Goes on after `pause`; no effect if it is accepting or closed."""
        self._forget_timer()
        if not self._closed and not self._accepting:
            self._accepting = True
            self._loop.add_reader(self._listening, self._accept)

    def pause(self, for_s: float) -> None:
        """Accepts nothing for this time, or until `resume`."""
        self._stop()
        self._resuming = self._loop.call_later(for_s, self.resume)

    def close(self) -> None:
        """Ends the loop and closes the listening socket; idempotent."""
        if not self._closed:
            self._closed = True
            self._stop()
            self._listening.close()

    def _stop(self) -> None:
        self._forget_timer()
        if self._accepting:
            self._accepting = False
            self._loop.remove_reader(self._listening)

    def _forget_timer(self) -> None:
        if self._resuming is not None:
            self._resuming.cancel()
            self._resuming = None

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_A_TURN):
            if not self._has_room():
                return
            try:
                connection, _ = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as problem:
                _log.write(
                    logging.ERROR,
                    f"accept {problem.errno}",
                    "%s accepts no connection for %g s: %s",
                    self._what,
                    _PAUSE_S,
                    problem,
                )
                self.pause(_PAUSE_S)
                return
            self._accepted(connection)
