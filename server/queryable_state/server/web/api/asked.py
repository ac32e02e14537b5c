"""A request for a REST path, checked against its declaration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.keys.time_window import TimeWindow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from queryable_state.server.config.limits import Limits
    from queryable_state.server.web.api.job_control import JobControl
    from queryable_state.server.web.in_process_service import InProcessService


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One REST request: its arguments, and the services that answer it."""

    service: InProcessService
    jobs: JobControl
    limits: Limits
    arguments: Mapping[str, Any]
    """The declared parameters by name; None for one that is not given."""
    body: Any = None
    """The parsed JSON of the request."""
    peer: str = ""
    """Name of the caller's connection."""
    last_event_id: str = ""
    """The event after which a stream resumes; empty: none."""

    @property
    def timeout_ms(self) -> int | None:
        """Time for the answer; None: the server's default."""
        return self.arguments.get("timeout_ms")

    async def call(self, method: str, request: Any) -> Any:
        """Calls an RPC of the query service in-process and returns its response."""
        return await self.service.call(method, request, self.timeout_ms)

    def read_options(self) -> dict[str, Any]:
        """Fields of a request by the parameters `READING` and `WINDOW`."""
        arguments = self.arguments
        options: dict[str, Any] = {
            "job": arguments["job"],
            "state_name": arguments["state"],
            "consistency": arguments["consistency"] or "COMMITTED",
            "allow_incomplete": bool(arguments["allow_incomplete"]),
            "min_version": arguments["min_version"] or 0,
            "max_staleness_ms": arguments["max_staleness_ms"] or 0,
        }
        window = _window(arguments, "window_start", "window_end")
        micros = _window(arguments, "window_start_us", "window_end_us")
        if window is not None and micros is not None:
            raise InvalidRequestError("give window_start and window_end, or both with _us")
        if window is not None:
            options["window"] = query_pb2.TimeWindow(start_ms=window[0], end_ms=window[1])
        if micros is not None:
            options["window"] = TimeWindow.of_micros(*micros).to_proto()
        return options


def _window(arguments: Mapping[str, Any], first: str, last: str) -> tuple[int, int] | None:
    """The bounds of a window in two parameters; None if it is in neither."""
    start, end = arguments.get(first), arguments.get(last)
    if (start is None) != (end is None):
        raise InvalidRequestError(f"give both {first} and {last}, or neither")
    if start is None or end is None:
        return None
    if start >= end:
        raise InvalidRequestError(
            f"{first} is {start} and {last} {end}: a window ends after its start"
        )
    return start, end
