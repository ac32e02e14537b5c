"""Refusal of hooks that Flink calls and this library would not call on a function."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from queryable_state.wire.errors import InvalidRequestError, Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

_TIMERS = (
    "only a KeyedProcessFunction, KeyedCoProcessFunction or KeyedBroadcastProcessFunction has "
    "timers. Remove {hook} from {name}"
)
_CONTEXT = (
    "the context is an argument: override open(self, runtime_context). Remove {hook} from {name}"
)
_SUBSUMED = (
    "each batch is a checkpoint and none is subsumed: override notify_checkpoint_complete. Remove "
    "{hook} from {name}"
)
_NO_OPERATOR = (
    "only the function of an operator has operator state and follows checkpoints, not the function "
    "of a state. Remove {hook} from {name}"
)

_UNCALLED = {
    "on_timer": _TIMERS,
    "set_runtime_context": _CONTEXT,
    "notify_checkpoint_subsumed": _SUBSUMED,
    "initialize_state": _NO_OPERATOR,
    "snapshot_state": _NO_OPERATOR,
    "restore_state": _NO_OPERATOR,
    "notify_checkpoint_complete": _NO_OPERATOR,
    "notify_checkpoint_aborted": _NO_OPERATOR,
}
_NOTHING_CALLED: Mapping[str, tuple[type, ...]] = MappingProxyType({})


def user_function(function: object) -> object:
    """The function that a user passed: `wrapped` of a function that adapts another one."""
    while hasattr(function, "wrapped"):
        function = function.wrapped
    return function


def refuse_uncalled_hooks(
    function: object, called: Mapping[str, tuple[type, ...]] = _NOTHING_CALLED
) -> None:
    """Raises InvalidRequestError if a function has a hook that would never be called.

    `called` has the interfaces through which hooks are called; a hook that is not in it is not
    called on this function.
    """
    function = user_function(function)
    for hook, instead in _UNCALLED.items():
        if not callable(getattr(function, hook, None)):
            continue
        interfaces = called.get(hook)
        if interfaces is None:
            raise _uncalled(function, hook, instead)
        if not isinstance(function, interfaces):
            names = " or ".join(interface.__name__ for interface in interfaces)
            raise _uncalled(function, hook, f"make {{name}} a {names}, or remove {{hook}}")


def _uncalled(function: object, hook: str, instead: str) -> InvalidRequestError:
    name = type(function).__name__
    return InvalidRequestError(
        f"{name}.{hook} would never be called: {instead.format(hook=hook, name=name)}; a method of "
        "your own needs another name",
        reason=Reason.UNSUPPORTED,
    )
