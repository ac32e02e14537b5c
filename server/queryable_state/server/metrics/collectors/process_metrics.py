"""Metrics that every serving process has: budgets, denials and its event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.metrics.families import counter, gauge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric

    from queryable_state.server.process.loop_watchdog import LoopWatchdog
    from queryable_state.server.security.access.gate import Gate
    from queryable_state.server.serving.byte_budget import ClientBudgets


class ProcessMetrics:
    """Collector of the parts that all public ports of a process share."""

    def __init__(
        self, budgets: ClientBudgets, gate: Gate | None, watchdog: LoopWatchdog | None
    ) -> None:
        """`gate`: None: everyone is answered. `watchdog`: None: the loop is not watched."""
        self._budgets = budgets
        self._gate = gate
        self._watchdog = watchdog

    def collect(self) -> Iterator[Metric]:
        """Yields the families."""
        budgets = {"requests": self._budgets.requests, "answers": self._budgets.answers}
        yield gauge(
            "held_bytes",
            "Bytes that the process holds for clients: unanswered requests, and answers that "
            "clients have not read.",
            ("kind",),
            [((kind,), budget.used_bytes) for kind, budget in budgets.items()],
        )
        yield counter(
            "budget_refusals",
            "Times a connection beyond its share had to wait or was refused, because the memory "
            "budget (held_bytes) was full.",
            ("kind",),
            [((kind,), budget.refusals) for kind, budget in budgets.items()],
        )
        access = None if self._gate is None else self._gate.access
        denials = {} if access is None else access.denials.counts.copy()
        limited = {} if access is None else access.refusals.total.copy()
        yield counter(
            "denials",
            "Calls without a valid token or grant, by cause.",
            ("cause",),
            [((cause,), number) for cause, number in denials.items()],
        )
        yield counter(
            "limit_refusals",
            "Queries refused by a limit of the access file, by name of the limit.",
            ("limit",),
            [((limit,), number) for limit, number in limited.items()],
        )
        watchdog = self._watchdog
        yield counter(
            "event_loop_stalls",
            "Turns of the event loop of more than 50 ms in which this process used the CPU.",
            samples=() if watchdog is None else [((), watchdog.stalls)],
        )
        yield counter(
            "event_loop_stalled_seconds",
            "Duration of all stalls of the event loop.",
            samples=() if watchdog is None else [((), watchdog.stalled_s)],
        )
        yield gauge(
            "event_loop_longest_stall_seconds",
            "Duration of the longest stall of the event loop.",
            samples=() if watchdog is None else [((), watchdog.worst_s)],
        )
