"""Registry of frame ports that this process cannot reach."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from queryable_state.wire.errors import QueryableStateError
from queryable_state.wire.security.tls_probe import TlsDiagnosis

if TYPE_CHECKING:
    from queryable_state.wire.security.connector import Connector

_log = logging.getLogger(__name__)


@dataclass
class _Unreachable:
    problem: str
    warned: set[str] = field(default_factory=set)


class FramePorts:
    """Outcome of the last attempt to reach each frame port, by HOST:PORT of the gRPC port.

    Logs one WARNING for each server and cause, and one INFO when the port is reached again. All
    streams of a client or proxy share one object, on one event loop.
    """

    def __init__(self) -> None:
        self._unreachable: dict[str, _Unreachable] = {}
        self._tls: dict[str, TlsDiagnosis] = {}
        self._tls_problems: dict[str, str] = {}

    @property
    def unreachable(self) -> int:
        """Number of servers that are not queried over frames."""
        return len(self._unreachable)

    def problem(self, address: str) -> str:
        """Why the server is not queried over frames; empty: no problem is known."""
        missed = self._unreachable.get(address)
        return "" if missed is None else missed.problem

    def absent(self, address: str) -> None:
        """Records that the server is configured without a frame port; logs no WARNING."""
        self._unreachable[address] = _Unreachable(
            "the server has no frame port: its spark.queryable_state.server_frame_ports, "
            "proxy_frame_ports or --frame-port is empty"
        )

    def missed(self, address: str, frame_address: str, failure: Exception) -> None:
        """Records a failed attempt."""
        cause = _cause(failure)
        missed = self._unreachable.setdefault(address, _Unreachable(""))
        missed.problem = f"its frame port {frame_address} is not reached: {cause}"
        if cause in missed.warned:
            return
        missed.warned.add(cause)
        _log.warning(
            "look-ups of server %s go as unary gRPC calls, which are slower: its frame port is not "
            "reached (%s). Let TCP connections through to %s, and see that they end at that "
            "server; spark.queryable_state.server_frame_ports, proxy_frame_ports and --frame-port "
            "set the port. It is tried again in the background",
            address,
            cause,
            frame_address,
        )

    def reached(self, address: str, frame_address: str) -> None:
        """Records a successful attempt."""
        if self._unreachable.pop(address, None) is not None:
            _log.info("look-ups of server %s go over its frame port %s now", address, frame_address)

    def forget(self, address: str) -> None:
        """Drops the entries of a server that this process no longer queries."""
        self._unreachable.pop(address, None)
        self._tls.pop(address, None)
        self._tls_problems.pop(address, None)

    async def diagnosis(
        self, address: str, connector: Connector, error: QueryableStateError
    ) -> QueryableStateError:
        """The problem of TLS why a server is not reached, else the error; logs a problem once."""
        known = self._tls.get(address)
        if known is None:
            known = self._tls[address] = TlsDiagnosis(address, connector)
        problem = await known.explained(error)
        if problem is not error and self._tls_problems.get(address) != problem.message:
            self._tls_problems[address] = problem.message
            _log.warning("%s", problem)
        return problem


def _cause(failure: Exception) -> str:
    if isinstance(failure, TimeoutError):
        return "no answer in time"
    if isinstance(failure, QueryableStateError):
        return failure.message
    if isinstance(failure, OSError) and failure.strerror:
        return failure.strerror
    return repr(failure)
