"""Check that the functions of a job can be pickled, because each task gets a pickled copy."""

from __future__ import annotations

import functools
import inspect
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final

from pyspark import cloudpickle

from queryable_state.streaming.graph.nodes import OperatorNode, TransformNode
from queryable_state.streaming.hooks import user_function
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from queryable_state.streaming.graph.nodes import SinkNode, StreamNode

_DEEPEST: Final = 8


def check_picklable(nodes: Iterable[StreamNode | SinkNode]) -> None:
    """Raises InvalidRequestError if a function cannot be pickled.

    The error names the operator, and the attribute or variable that cannot be pickled.
    """
    for node in nodes:
        if isinstance(node, OperatorNode):
            operator: Any = node.operator
            function = getattr(operator, "function", getattr(operator, "descriptor", operator))
        elif isinstance(node, TransformNode):
            operator = node.step
            function = operator.function
        else:
            continue
        error = _pickling_error(operator)
        if error is not None:
            raise _refusal(node.name, user_function(function), error) from error


def _refusal(operator: str, function: object, error: Exception) -> InvalidRequestError:
    path, value, cause = _culprit(function, _name(function), error, ())
    return InvalidRequestError(
        f"operator {operator!r}: {path} (a {type(value).__name__}) cannot be pickled, but each "
        f"task gets a pickled copy of the function: {type(cause).__name__}: {cause}. Create it in "
        "open(), which each task calls on its own copy"
    )


def _culprit(
    value: object, path: str, error: Exception, parents: tuple[int, ...]
) -> tuple[str, object, Exception]:
    """The innermost part of a value that cannot be pickled: its path, itself, and its error."""
    if len(parents) < _DEEPEST:
        for name, part in _parts(value, path):
            if id(part) in parents:
                continue
            failed = _pickling_error(part)
            if failed is not None:
                return _culprit(part, name, failed, (*parents, id(value)))
    return path, value, error


def _parts(value: object, path: str) -> Iterator[tuple[str, object]]:
    """The values that are pickled with a value, each with its path."""
    if isinstance(value, FunctionType):
        variables = inspect.getclosurevars(value)
        for kind, found in (("variable", variables.nonlocals), ("global", variables.globals)):
            for name, part in found.items():
                yield f"{kind} {name!r} of {path}", part
        for number, part in enumerate(value.__defaults__ or ()):
            yield f"default {number} of {path}", part
    elif isinstance(value, MethodType):
        yield f"{path} of {_name(value.__self__)}", value.__self__
    elif isinstance(value, functools.partial):
        yield from _parts((value.func, *value.args, value.keywords), path)
    elif isinstance(value, dict):
        for name, part in value.items():
            yield f"{path}[{name!r}]", part
    elif isinstance(value, list | tuple | set | frozenset):
        for number, part in enumerate(value):
            yield f"{path}[{number}]", part
    elif not isinstance(value, type):
        for name, part in getattr(value, "__dict__", {}).items():
            yield f"{path}.{name}", part


def _name(value: object) -> str:
    named: object = value if isinstance(value, FunctionType | MethodType | type) else type(value)
    return str(getattr(named, "__qualname__", named)).rpartition("<locals>.")[2]


def _pickling_error(value: object) -> Exception | None:
    try:
        cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    except Exception as error:  # noqa: BLE001 - a user's __reduce__ may raise anything
        return error
    return None
