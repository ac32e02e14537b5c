"""Trace of one explained lookup in the client."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from queryable_state.client._reading.explanation import ExplainStep
from queryable_state.client._reading.info import Role
from queryable_state.v1 import query_pb2

if TYPE_CHECKING:
    from queryable_state.wire.errors import QueryableStateError

_REQUEST = "client to server"


class LookupTrace:
    """Steps of one lookup; each step begins when the previous one ends.

    One attempt has the steps "locate", "batch" (until the message is sent) and "client to server"
    (until the answer, a refusal or the end of the connection). A retry adds them again. No other
    lookup shares the batcher or the trace.
    """

    def __init__(self) -> None:
        self.steps: list[ExplainStep] = []
        self.servers = query_pb2.Trace()
        """The servers' trace of the last attempt that was answered."""
        self.was_sent = False
        self._begun_ns = time.perf_counter_ns()
        self._marked_us = 0

    @property
    def now_us(self) -> int:
        """Microseconds since the lookup began."""
        return (time.perf_counter_ns() - self._begun_ns) // 1000

    def located(self, placement_version: int, *, cached: bool) -> None:
        """Records that the placement of the state is known."""
        self._add("locate", f"placement {placement_version}", cache_hit=cached)

    def sent(self, keys: int, in_flight: int) -> None:
        """Records that a message with so many keys is sent while `in_flight` others are open."""
        self.was_sent = True
        self._add("batch", f"keys {keys}, other messages in flight {in_flight}")

    def answered(self, server: str, answer: query_pb2.Answer) -> None:
        """Records the last part of an answer; ignores the others."""
        if not answer.last:
            return
        refusal = answer.error if answer.HasField("error") else None
        if refusal is None and answer.failed:
            refusal = answer.failed[0].error
        self._add_request(server, "" if refusal is None else f": {refusal.message}")
        self.servers = answer.trace
        self.steps.extend(ExplainStep.from_proto(step) for step in answer.trace.steps)

    def refused(
        self, server: str, error: QueryableStateError, *, lost: bool, retried: bool
    ) -> None:
        """Records a failed attempt; `lost`: its connection ended without an answer."""
        if lost:
            self._add_request(server, f": {error.message}")
        requests = [at for at, step in enumerate(self.steps) if step.name == _REQUEST]
        # There is no step yet if the refusal is in a part before the last one of the answer.
        if requests:
            self.steps[requests[-1]] = replace(self.steps[requests[-1]], retried=retried)

    def _add_request(self, server: str, outcome: str) -> None:
        self._add(_REQUEST, f"{server}{outcome}")

    def _add(self, name: str, detail: str, *, cache_hit: bool = False) -> None:
        begun_us, self._marked_us = self._marked_us, self.now_us
        self.steps.append(
            ExplainStep(
                name=name,
                server_id="",
                role=Role.UNKNOWN,
                begun_us=begun_us,
                took_us=self._marked_us - begun_us,
                detail=detail,
                cache_hit=cache_hit,
            )
        )
