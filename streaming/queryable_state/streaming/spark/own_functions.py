"""Own copies of functions that a program passes to several operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pyspark import cloudpickle

from queryable_state.streaming.functions import Function
from queryable_state.streaming.hooks import user_function

if TYPE_CHECKING:
    from collections.abc import Iterable

_T = TypeVar("_T")


def with_own_functions(described: Iterable[_T]) -> list[_T]:
    """The operators or steps of one task, each with a function of its own.

    They are pickled together, so without a copy a function that is passed twice would be one object
    in the task, whose `open` of the second operator replaces the states of the first.
    """
    seen: set[int] = set()
    own = []
    for each in described:
        function = _function(each)
        if id(function) in seen:
            own.append(_copy(each))
            continue
        if isinstance(function, Function):
            seen.add(id(function))
        own.append(each)
    return own


def _function(described: Any) -> object:
    descriptor = getattr(described, "descriptor", None)
    return user_function(getattr(described, "function", getattr(descriptor, "function", None)))


def _copy(value: _T) -> _T:
    copied: _T = cloudpickle.loads(cloudpickle.dumps(value))  # type: ignore[no-untyped-call]
    return copied
