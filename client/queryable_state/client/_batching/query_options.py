"""Options shared by all lookups of one batcher."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from queryable_state.client._consistency import Consistency
from queryable_state.client._reading.operation import VALUE, Operation

if TYPE_CHECKING:
    from queryable_state.client._batching.expectation import Expectation
    from queryable_state.client._batching.lookup_trace import LookupTrace
    from queryable_state.wire.keys.time_window import TimeWindow


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """Everything that a lookup sends beside its key."""

    timeout_s: float
    consistency: Consistency = Consistency.COMMITTED
    window: TimeWindow | None = None
    """None: the state has no windows, or all of them are read."""
    allow_incomplete: bool = False
    expectation: Expectation | None = None
    """Types the caller expects; None: not checked."""
    operation: Operation = VALUE
    at_version: int | None = None
    """Read exactly this committed batch; None: the newest one."""
    trace: LookupTrace | None = None
    """Set for an explained lookup only."""

    @property
    def namespace(self) -> bytes:
        """The encoded namespace of the window; empty: there is none."""
        return b"" if self.window is None else self.window.namespace

    @property
    def is_plain(self) -> bool:
        """True if a query message needs only the keys and the kind of read."""
        return not (
            self.window
            or self.allow_incomplete
            or self.at_version is not None
            or self.trace is not None
            or self.operation.of_pairs
            or self.consistency != Consistency.COMMITTED
        )

    def at(self, version: int) -> QueryOptions:
        """Returns the same options for a read of exactly one committed batch."""
        return replace(self, consistency=Consistency.COMMITTED, at_version=version)

    def traced(self, trace: LookupTrace) -> QueryOptions:
        """Returns the same options with a trace that records the steps of the lookup."""
        return replace(self, trace=trace)
