"""Next step of a caller after a refusal, by its `Reason`."""

from __future__ import annotations

import enum

from queryable_state.v1.errors_pb2 import Reason


class NextStep(enum.Enum):
    """Step that may turn a refusal into an answer. A retry policy lists the steps it takes."""

    RETRY_SAME = "retry the same server after a delay: it has no room, or a transfer was damaged"
    LOCATE_AGAIN = "refresh the placement, then ask the owner it names"
    ASK_ANOTHER = "ask another server: this one stops, the placement is as it was"
    WAIT = "retry only if the caller has more time than the server was given"
    START_OVER = "read again at a newer version: the requested one is compacted"
    STOP = "stop: a newer run, attempt or server has taken over"
    FAIL = "report it: no retry succeeds"


_NEXT_STEPS: dict[Reason.ValueType, NextStep] = {
    Reason.OVERLOADED: NextStep.RETRY_SAME,
    Reason.CHECKSUM_MISMATCH: NextStep.RETRY_SAME,
    Reason.NOT_OWNER: NextStep.LOCATE_AGAIN,
    Reason.LEASE_EXPIRED: NextStep.LOCATE_AGAIN,
    Reason.NO_OWNER: NextStep.LOCATE_AGAIN,
    Reason.UNAVAILABLE: NextStep.LOCATE_AGAIN,
    Reason.STOPPING: NextStep.ASK_ANOTHER,
    Reason.BEHIND: NextStep.WAIT,
    Reason.DEADLINE_EXCEEDED: NextStep.WAIT,
    Reason.VERSION_GONE: NextStep.START_OVER,
    Reason.FENCED: NextStep.STOP,
    Reason.ALREADY_COMMITTED: NextStep.STOP,
    Reason.STALE_TOKEN: NextStep.STOP,
}


def next_step(reason: Reason.ValueType) -> NextStep:
    """Returns the next step of a caller after a refusal with this reason."""
    return _NEXT_STEPS.get(reason, NextStep.FAIL)
