"""Demand for batches without input: the rule by which a query with timers gets its batches.

A query with timers has a marker source, a source without rows whose offset moves when the query
needs a batch. The rule depends only on what the newest batch left behind and on the wall clock, so
it decides alike after a restart.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from queryable_state.wire.event_time import END_OF_TIME

if TYPE_CHECKING:
    from collections.abc import Sequence


class Demand(Enum):
    """What a query needs."""

    NONE = "no batch"
    BATCH = "a batch"
    END_OF_TIME = "a batch with the watermark at the end of event time"


@dataclass(frozen=True, kw_only=True)
class LastBatch:
    """What the newest batch of a query left behind; the batch is committed."""

    had_input: bool
    """True if a source other than the marker source moved."""
    watermarks_ms: Sequence[int]
    """The watermarks of this batch and the ones before it, newest first; 0: none."""
    depth: int
    """The depth of the deepest operator, which sees the watermark of as many batches ago."""
    next_timers_ms: tuple[int | None, int | None]
    """The earliest pending timers, of processing time and of event time, in milliseconds since the
    epoch; None: none."""

    @property
    def _watermark_ms(self) -> int:
        return self.watermarks_ms[0]

    @property
    def _is_settled(self) -> bool:
        """True if the deepest operator has seen the newest watermark, and no later one follows."""
        seen = self.watermarks_ms[self.depth : self.depth + 1]
        return not self.had_input and list(seen) == [self._watermark_ms]

    def demand(self, now_ms: int, *, ends: bool) -> Demand:
        """What the query needs now; `ends` is true if it ends with its input.

        * A processing-time timer is due: a batch.
        * Event-time timers are pending: a batch after each batch with input, which moves the
          watermark, and more until every operator has seen a watermark that makes timers due.
        * The query ends with its input: a batch after each batch with input. A batch without input
          shows that the input has ended: then batches at the end of time until every operator has
          seen it.
        """
        if ends:
            if self.had_input:
                return Demand.BATCH
            ended = self._watermark_ms == END_OF_TIME and self._is_settled
            return Demand.NONE if ended else Demand.END_OF_TIME
        due_ms, event_ms = self.next_timers_ms
        if due_ms is not None and due_ms <= now_ms:
            return Demand.BATCH
        if event_ms is None or self._is_settled:
            return Demand.NONE
        if self.had_input or (self._watermark_ms and event_ms <= self._watermark_ms):
            return Demand.BATCH
        return Demand.NONE
