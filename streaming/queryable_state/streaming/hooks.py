"""Refusal of hooks that Flink calls and this library never calls."""

from __future__ import annotations

from queryable_state.wire.errors import InvalidRequestError, Reason

_TIMERS = (
    "timers are not supported: when the next element of the key arrives, compare ctx.timestamp() "
    "or ctx.current_watermark() with a time kept in state"
)
_SNAPSHOTS = (
    "a function has no state other than its keyed states, which are stored with each batch: keep "
    "lasting data in a keyed state"
)
_CHECKPOINTS = (
    "functions are not notified of checkpoints: use the sink, or Spark's StreamingQueryListener"
)
_CONTEXT = "the context is an argument: override open(self, runtime_context)"

_UNCALLED = {
    "on_timer": _TIMERS,
    "initialize_state": _SNAPSHOTS,
    "snapshot_state": _SNAPSHOTS,
    "restore_state": _SNAPSHOTS,
    "notify_checkpoint_complete": _CHECKPOINTS,
    "notify_checkpoint_aborted": _CHECKPOINTS,
    "notify_checkpoint_subsumed": _CHECKPOINTS,
    "set_runtime_context": _CONTEXT,
}


def refuse_uncalled_hooks(function: object) -> None:
    """Raises InvalidRequestError if a function has a hook that would never be called."""
    for hook, instead in _UNCALLED.items():
        if callable(getattr(function, hook, None)):
            name = type(function).__name__
            raise InvalidRequestError(
                f"{name}.{hook} would never be called: {instead}. Remove {hook} from {name}; a "
                "method of your own needs another name",
                reason=Reason.UNSUPPORTED,
            )
