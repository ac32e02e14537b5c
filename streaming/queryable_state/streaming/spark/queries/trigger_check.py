"""Refusal of triggers with which queryable operators do not run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.wire.errors import InvalidRequestError, Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

_MODES = {"realTime": "real-time mode", "continuous": "continuous processing"}
_REAL_TIME_CLASS = "RealTimeTrigger"


def check_trigger(trigger: Mapping[str, Any]) -> None:
    """Raises InvalidRequestError for arguments of `DataStreamWriter.trigger` that operators cannot
    run with."""
    for name in _MODES:
        if trigger.get(name) is not None:
            raise _refusal(name)


def trigger_refusal(execution: Any) -> InvalidRequestError | None:
    """Why the operators of a `StreamExecution` cannot run with its trigger; None if they can.

    Spark itself refuses the shuffle of operators in continuous processing. Raises Py4JError if
    the JVM does not answer.
    """
    name = execution.trigger().getClass().getSimpleName()
    return _refusal("realTime") if name == _REAL_TIME_CLASS else None


def _refusal(name: str) -> InvalidRequestError:
    cure = "use the trigger processingTime or availableNow"
    if name == "realTime":
        cure += ". Spark's own aggregations in this mode can be served with serve_query"
    return InvalidRequestError(
        f"{_MODES[name]} (trigger {name}) is not supported for queryable operators, whose state is "
        f"written per micro-batch: {cure}",
        reason=Reason.UNSUPPORTED,
    )
