"""Reports of a process to the coordinator: its load by clients and tasks, restores and failed
stores."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from queryable_state.internal.v1 import coordinator_pb2
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from contextlib import AsyncExitStack

    from queryable_state.server.security.access.gate import Gate

_log = logging.getLogger(__name__)

_INTERVAL_S = 5.0
# Interval while a restore goes on.
_RESTORES_S = 1.0
_MOST_REFUSALS = 32


class LoadReporter:
    """Reports refusals, busy keys and failed stores every five seconds, as long as there are any,
    and the progress of restores every second.

    A report that fails is left out: the next one has all of the last minute. For the event loop.
    """

    def __init__(
        self,
        process_id: str,
        send: Callable[[coordinator_pb2.ReportLoadRequest], Awaitable[object]],
        *,
        gate: Gate | None,
        busy_states: Callable[[], Iterable[coordinator_pb2.StateLoad]] = tuple,
        restores: Callable[[], Iterable[coordinator_pb2.RunningRestore]] = tuple,
        failed_stores: Callable[[], Iterable[coordinator_pb2.FailedStore]] = tuple,
    ) -> None:
        """`gate`: counts the refusals; None: nothing is refused by limits."""
        self._restores = restores
        self._failed_stores = failed_stores
        self._process_id = process_id
        self._send = send
        self._gate = gate
        self._busy_states = busy_states

    def start(self, stack: AsyncExitStack) -> None:
        """Reports until `stack` is closed."""
        task = asyncio.create_task(self._run(), name="load reports")
        stack.push_async_callback(asyncio.wait, [task])
        stack.callback(task.cancel)

    async def report(self) -> coordinator_pb2.ReportLoadRequest:
        """The load of the last minute."""
        report = coordinator_pb2.ReportLoadRequest(
            process_id=self._process_id,
            restores=self._restores(),
            failed_stores=self._failed_stores(),
        )
        for state in self._busy_states():
            report.states.append(state)
            # A busy state takes about a millisecond.
            await asyncio.sleep(0)
        if self._gate is not None:
            refusals = self._gate.access.refusals
            report.refused = refusals.total.total()
            for refusal, count in refusals.last_minute().most_common(_MOST_REFUSALS):
                report.refusals.add(
                    caller=refusal.caller,
                    job_id=refusal.name.job_id,
                    state_name=refusal.name.state,
                    limit=refusal.limit,
                    count=count,
                )
        return report

    async def _run(self) -> None:
        had_load = False
        while True:
            for _ in range(round(_INTERVAL_S / _RESTORES_S)):
                await asyncio.sleep(_RESTORES_S)
                if any(self._restores()):
                    break
            report = await self.report()
            has_load = bool(
                report.refusals or report.states or report.restores or report.failed_stores
            )
            if not (has_load or had_load):
                continue
            try:
                await self._send(report)
            except QueryableStateError as failure:
                _log.debug("the load is not reported: %s", failure)
            else:
                had_load = has_load
