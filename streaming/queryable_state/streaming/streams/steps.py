"""Steps of the user's functions: what each kind of function emits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming.co_functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
)
from queryable_state.streaming.runtime.stateless.steps import Emits, Step
from queryable_state.streaming.stateless.functions import (
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapFunction,
    ProcessFunction,
)
from queryable_state.wire.schema.inference import infer_type
from queryable_state.wire.schema.types import TypeInfo, type_info

if TYPE_CHECKING:
    from collections.abc import Callable

_CALLABLES: dict[type, tuple[Emits, str]] = {
    MapFunction: (Emits.RESULT, "map"),
    FlatMapFunction: (Emits.RESULTS, "flat_map"),
    FilterFunction: (Emits.ELEMENT, "filter"),
    KeySelector: (Emits.RESULT, "get_key"),
}
_CLASSES: dict[type, tuple[Emits, tuple[str, ...]]] = {
    ProcessFunction: (Emits.RESULTS, ("process_element",)),
    CoMapFunction: (Emits.RESULT_IF_ANY, ("map1", "map2")),
    CoFlatMapFunction: (Emits.RESULTS, ("flat_map1", "flat_map2")),
    CoProcessFunction: (Emits.RESULTS, ("process_element1", "process_element2")),
}


def step_of(function: Any, cls: type) -> Step:
    """The step of a function of this class, or of a callable where Flink takes one; raises
    TypeError for anything else."""
    if cls in _CALLABLES:
        emits, method = _CALLABLES[cls]
        methods: tuple[str, ...] = (method,)
    else:
        emits, methods = _CLASSES[cls]
    if not isinstance(function, cls):
        if cls not in _CALLABLES:
            raise TypeError(f"The input must be a {cls.__name__}, not {function!r}")
        if not callable(function):
            raise TypeError(
                f"The input must be a {cls.__name__} or a callable function, not {function!r}"
            )
        methods = ()
    return Step(
        function=function,
        emits=emits,
        methods=methods,
        takes_context=cls in (ProcessFunction, CoProcessFunction),
    )


def result_type(step: Step, output_type: object, kind: str) -> TypeInfo:
    """The declared output type of a step, else that of the function's annotation; PICKLED, with a
    WARNING, if there is none."""
    if output_type is not None:
        return type_info(output_type)
    functions: list[Callable[..., Any]] = [
        getattr(step.function, method) for method in step.methods
    ] or [step.function]  # type: ignore[list-item]  # a step without methods is a callable
    return infer_type(functions[0], f"{kind}({step.what})", elements=step.emits is Emits.RESULTS)
