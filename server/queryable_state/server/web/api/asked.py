"""A request for a REST path, checked against its declaration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from queryable_state.server.config.limits import Limits
    from queryable_state.server.web.api.job_control import JobControl
    from queryable_state.server.web.in_process_service import InProcessService


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a caller asks, and whom to ask for the answer."""

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
        """The response of the service."""
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
        start, end = arguments.get("window_start"), arguments.get("window_end")
        if (start is None) != (end is None):
            raise InvalidRequestError("give both window_start and window_end, or neither")
        if start is not None and end is not None:
            if start >= end:
                raise InvalidRequestError(
                    f"window_start is {start} and window_end {end}: a window ends after its start"
                )
            options["window"] = query_pb2.TimeWindow(start_ms=start, end_ms=end)
        return options
