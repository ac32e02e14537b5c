"""Read consistency: the batches from which a query may be answered."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from queryable_state.client._arguments import MOST_NUMBER
from queryable_state.client._reading.info import ReadInfo
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from typing import Self

# Longer than the age of any commit. A state without a commit is older: its commit time is 1970.
_EVER_MS = 1_000_000_000_000


@dataclass(frozen=True, slots=True, repr=False)
class Consistency:
    """The batches from which a query may be answered.

    `COMMITTED`, `UNCOMMITTED`, `at_least(batch)` or `within(seconds)`. If the owner
    has no such batch yet, it waits for the commit and then answers. If the commit does
    not happen shortly before the query's deadline, the query fails with
    `RetryLaterError` (BEHIND).
    """

    uncommitted: bool = False
    """The newest sealed batch, even if it is not committed and may still be replaced."""

    min_version: int = 0
    """Lowest batch id accepted; 0: any."""

    max_staleness_ms: int = 0
    """Maximum age of the commit in milliseconds; 0: any."""

    timeline: int = 0
    """Timeline of `min_version`, as in `ReadInfo.timeline`; 0: not known."""

    def __post_init__(self) -> None:
        numbers = (self.min_version, self.max_staleness_ms)
        if not all(type(each) is int and 0 <= each <= MOST_NUMBER for each in numbers):
            raise InvalidRequestError(
                f"min_version and max_staleness_ms are numbers from 0: {numbers}; see "
                "Consistency.at_least and Consistency.within"
            )

    COMMITTED: ClassVar[Consistency]
    """The newest committed batch of the server that answers."""

    UNCOMMITTED: ClassVar[Consistency]
    """The newest sealed batch, even if it is not committed and may still be replaced."""

    @classmethod
    def at_least(cls, seen: int | ReadInfo) -> Self:
        """The newest committed batch once that is the one `seen`, or a later one.

        Use it to read your own write, or never an older batch than before: the server that
        answers may learn of a commit later than other servers. `seen` is the id of a batch, or
        the `info` of an answer. If the job has gone back behind the batch since then, because
        its checkpoint was set back or it began from a savepoint, the query fails with
        `VersionGoneError` at once. With an `info` that is found out always. With an id only
        until the job has sealed another batch of that id, and never after a savepoint.
        """
        batch, timeline = (seen.version, seen.timeline) if isinstance(seen, ReadInfo) else (seen, 0)
        if isinstance(seen, ReadInfo) and batch < 0:
            return cls()
        if type(batch) is not int or not 0 <= batch <= MOST_NUMBER:
            raise InvalidRequestError(
                f"at_least takes the id of a batch, from 0, or the info of an answer: {batch!r}"
            )
        # On the wire, min_version 0 also accepts a state without a commit; a maximum age does not.
        return cls(min_version=batch, max_staleness_ms=0 if batch else _EVER_MS, timeline=timeline)

    @classmethod
    def within(cls, seconds: float) -> Self:
        """The newest committed batch, committed at most so many seconds ago."""
        if type(seconds) not in (int, float) or not 0 < seconds < math.inf:
            raise InvalidRequestError(f"within takes a number of seconds above 0: {seconds!r}")
        return cls(max_staleness_ms=min(_EVER_MS, max(1, int(seconds * 1000))))

    @property
    def wire(self) -> query_pb2.Consistency.ValueType:
        """The wire value."""
        return query_pb2.UNCOMMITTED if self.uncommitted else query_pb2.COMMITTED

    @property
    def may_wait(self) -> bool:
        """True if the owner may wait for a commit before it answers."""
        return bool(self.min_version or self.max_staleness_ms)

    def __repr__(self) -> str:
        if self.uncommitted:
            return "Consistency.UNCOMMITTED"
        if self.min_version or self.max_staleness_ms == _EVER_MS:
            return f"Consistency.at_least({self.min_version})"
        if self.max_staleness_ms:
            return f"Consistency.within({self.max_staleness_ms / 1000:g})"
        return "Consistency.COMMITTED"


Consistency.COMMITTED = Consistency()
Consistency.UNCOMMITTED = Consistency(uncommitted=True)


def checked_consistency(consistency: object) -> Consistency:
    """Raises `InvalidRequestError` if the argument is not a `Consistency`."""
    if not isinstance(consistency, Consistency):
        raise InvalidRequestError(
            "consistency must be Consistency.COMMITTED, .UNCOMMITTED, .at_least(batch) or "
            f".within(seconds), not {consistency!r}"
        )
    return consistency
