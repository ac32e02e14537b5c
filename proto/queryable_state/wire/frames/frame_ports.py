"""The frame ports of the servers one process asks: which of them it cannot reach, and why."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from queryable_state.wire.errors import QueryableStateError

_log = logging.getLogger(__name__)


@dataclass
class _Missed:
    problem: str
    warned: set[str] = field(default_factory=set)


class FramePorts:
    """What attempts at frame ports came to, by the HOST:PORT of the server's gRPC port.

    One WARNING a server and cause until the port is reached again, which is logged, too. One for
    all streams of a client or proxy, on one event loop.
    """

    def __init__(self) -> None:
        self._missed: dict[str, _Missed] = {}

    def problem(self, address: str) -> str:
        """Why the server's frame port was not reached at the last attempt; empty: it was."""
        missed = self._missed.get(address)
        return "" if missed is None else missed.problem

    def missed(self, address: str, frame_address: str, failure: Exception) -> None:
        """An attempt has failed."""
        cause = _cause(failure)
        missed = self._missed.setdefault(address, _Missed(""))
        missed.problem = f"its frame port {frame_address} is not reached: {cause}"
        if cause in missed.warned:
            return
        missed.warned.add(cause)
        _log.warning(
            "look-ups of server %s go over gRPC, which is about five times slower: its frame port "
            "is not reached (%s). Let TCP connections through to %s, and see that they end at that "
            "server; spark.queryable_state.frame_ports (--frame-port) fixes the port. It is tried "
            "again in the background",
            address,
            cause,
            frame_address,
        )

    def reached(self, address: str, frame_address: str) -> None:
        """An attempt has succeeded."""
        if self._missed.pop(address, None) is not None:
            _log.info("look-ups of server %s go over its frame port %s now", address, frame_address)

    def forget(self, address: str) -> None:
        """Nobody asks this server any more."""
        self._missed.pop(address, None)


def _cause(failure: Exception) -> str:
    if isinstance(failure, TimeoutError):
        return "no answer in time"
    if isinstance(failure, QueryableStateError):
        return failure.message
    if isinstance(failure, OSError) and failure.strerror:
        return failure.strerror
    return repr(failure)
