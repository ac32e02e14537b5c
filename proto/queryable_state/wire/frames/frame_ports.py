"""Frame ports that this process cannot use, and why."""

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
    """The outcome of the last attempt at each frame port, by the HOST:PORT of the gRPC port.

    Logs one WARNING per server and cause until the port is reached again, which it logs, too. One
    object for all streams of a client or proxy, on one event loop.
    """

    def __init__(self) -> None:
        self._missed: dict[str, _Missed] = {}

    def problem(self, address: str) -> str:
        """Why look-ups of the server do not go over frames; empty: nothing is known against it."""
        missed = self._missed.get(address)
        return "" if missed is None else missed.problem

    def absent(self, address: str) -> None:
        """Notes that the server has no frame port, which its operator decided: no WARNING."""
        self._missed[address] = _Missed(
            "the server has no frame port: its spark.queryable_state.frame_ports (--frame-port) "
            "is empty"
        )

    def missed(self, address: str, frame_address: str, failure: Exception) -> None:
        """Notes a failed attempt."""
        cause = _cause(failure)
        missed = self._missed.setdefault(address, _Missed(""))
        missed.problem = f"its frame port {frame_address} is not reached: {cause}"
        if cause in missed.warned:
            return
        missed.warned.add(cause)
        _log.warning(
            "look-ups of server %s go as unary gRPC calls, which are slower: its frame port is not "
            "reached (%s). Let TCP connections through to %s, and see that they end at that "
            "server; spark.queryable_state.frame_ports (--frame-port) fixes the port. It is tried "
            "again in the background",
            address,
            cause,
            frame_address,
        )

    def reached(self, address: str, frame_address: str) -> None:
        """Notes a successful attempt."""
        if self._missed.pop(address, None) is not None:
            _log.info("look-ups of server %s go over its frame port %s now", address, frame_address)

    def forget(self, address: str) -> None:
        """Drops what is known: this process asks the server no more."""
        self._missed.pop(address, None)


def _cause(failure: Exception) -> str:
    if isinstance(failure, TimeoutError):
        return "no answer in time"
    if isinstance(failure, QueryableStateError):
        return failure.message
    if isinstance(failure, OSError) and failure.strerror:
        return failure.strerror
    return repr(failure)
