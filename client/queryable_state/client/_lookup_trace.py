"""The steps of one explained look-up in the client."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from queryable_state.client._reading.explanation import ExplainStep
from queryable_state.client._reading.info import Role
from queryable_state.v1 import query_pb2

if TYPE_CHECKING:
    from queryable_state.client._connection.batch import Batch
    from queryable_state.wire.errors import QueryableStateError

_ASKED = "client to server"


class LookupTrace:
    """A log to which the parts of the client add what they did, each step since the one before.

    The lane of the look-up has it, and no other look-up: "locate", "batch" (until the message is
    sent), "client to server" (until the answer, a refusal or the end of the connection), and all
    of it again for the next attempt.
    """

    def __init__(self) -> None:
        self.steps: list[ExplainStep] = []
        self.servers = query_pb2.Trace()
        """What the servers did for the last attempt that was answered."""
        self.was_sent = False
        self._begun_ns = time.perf_counter_ns()
        self._marked_us = 0

    @property
    def now_us(self) -> int:
        """Microseconds since the look-up began."""
        return (time.perf_counter_ns() - self._begun_ns) // 1000

    def located(self, placement_version: int, *, cached: bool) -> None:
        """The client knows where the state is."""
        self._add("locate", f"placement {placement_version}", cache_hit=cached)

    def sent(self, batch: Batch, in_flight: int) -> None:
        """The message of the look-up goes out behind so many others without an answer."""
        self.was_sent = True
        self._add("batch", f"keys {len(batch.keys)}, other messages in flight {in_flight}")

    def answered(self, batch: Batch, answer: query_pb2.Answer) -> None:
        """An answer has come; notes the last part."""
        if not answer.last:
            return
        refusal = answer.error if answer.HasField("error") else None
        if refusal is None and answer.failed:
            refusal = answer.failed[0].error
        self._asked(batch, "" if refusal is None else f": {refusal.message}")
        self.servers = answer.trace
        self.steps.extend(ExplainStep.from_proto(step) for step in answer.trace.steps)

    def refused(
        self, batch: Batch, error: QueryableStateError, *, lost: bool, retried: bool
    ) -> None:
        """The attempt has failed; `lost`: its connection ended without an answer."""
        if lost:
            self._asked(batch, f": {error.message}")
        asked = [at for at, step in enumerate(self.steps) if step.name == _ASKED]
        # None for a refusal in a part that is not the last one of its answer.
        if asked:
            self.steps[asked[-1]] = replace(self.steps[asked[-1]], retried=retried)

    def _asked(self, batch: Batch, outcome: str) -> None:
        where = "nobody" if batch.server is None else batch.server.info.way
        self._add(_ASKED, f"{where}{outcome}")

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
