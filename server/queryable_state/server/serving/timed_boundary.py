"""Error boundary that counts durations and failures of calls."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from queryable_state.server.serving.error_boundary import ErrorBoundary
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from types import TracebackType

    from queryable_state.server.metrics.call_counts import CallCounts
    from queryable_state.server.serving.error_boundary import Context


class TimedBoundary(ErrorBoundary):
    """Same contract as `ErrorBoundary`; adds the call to `counts` by its name."""

    __slots__ = ("_begun_s", "_counts")

    def __init__(self, context: Context, what: str, counts: CallCounts) -> None:
        super().__init__(context, what)
        self._counts = counts
        self._begun_s = 0.0

    async def __aenter__(self) -> None:
        self._begun_s = perf_counter()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._counts.durations[self._what].add(perf_counter() - self._begun_s)
        if isinstance(error, QueryableStateError):
            self._counts.failed[self._what, error.reason_name] += 1
        elif isinstance(error, Exception):
            self._counts.failed[self._what, "INTERNAL"] += 1
        await super().__aexit__(kind, error, trace)
