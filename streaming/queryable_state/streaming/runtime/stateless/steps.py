"""Steps over elements without state, as picklable descriptions, and their execution.

A step is a lazy generator over the elements of the step before it. So a task processes one element
through all steps before it reads the next one.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from enum import Enum
from operator import index
from typing import TYPE_CHECKING, Any

from queryable_state.streaming.functions import Function, UserFunctionError
from queryable_state.streaming.hooks import refuse_uncalled_hooks
from queryable_state.streaming.operator_state.checkpointed import HOOKS
from queryable_state.streaming.runtime.user_code import described, shown
from queryable_state.streaming.stateless.output_tag import tagged
from queryable_state.wire.errors import QueryableStateError
from queryable_state.wire.event_time import NO_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from queryable_state.streaming.runtime.columns.event_time import CurrentTime
    from queryable_state.streaming.runtime.stateless.element_context import ChainContext

    Elements = Iterable[Any]

NO_ITERABLES_OF_OUTPUTS = frozenset((str, bytes, bytearray, dict))


class Emits(Enum):
    """The outputs that a step makes of the result of its function."""

    RESULT = "the result"
    RESULT_IF_ANY = "the result, if it is not None"
    RESULTS = "the items of the result"
    ELEMENT = "the element, if the result is true"
    TIMED = "the element, with the result as its timestamp"


@dataclass(frozen=True, kw_only=True)
class Step:
    """One function over the elements of one or several streams."""

    function: Function | Callable[..., Any]
    emits: Emits
    methods: tuple[str, ...] = ()
    """Methods of a `Function`, by stream; empty: a plain callable."""
    takes_context: bool = False
    """True if the methods have a second argument, the context."""
    has_operator_state: bool = False
    """True if a stateful operator runs the step, and calls the hooks of `CheckpointedFunction`,
    `ListCheckpointed` and `CheckpointListener`."""

    def __post_init__(self) -> None:
        if self.methods:
            refuse_uncalled_hooks(self.function, HOOKS if self.has_operator_state else {})

    @property
    def what(self) -> str:
        """The function for logs and errors."""
        if self.methods:
            return f"{type(self.function).__name__}.{self.methods[0].rstrip('12')}"
        name = getattr(self.function, "__qualname__", None)
        return repr(self.function) if name is None else f"function {name}"

    def call(self, context: ChainContext) -> Callable[[Any], Any]:
        """A function of one element, for the stream that the context is at."""
        if self.emits is Emits.TIMED:
            return functools.partial(_with_timestamp, self.function, context.time)  # type: ignore[arg-type]
        if not self.methods:
            return self.function  # type: ignore[return-value]  # a callable without methods
        calls = [getattr(self.function, method) for method in self.methods]
        if self.takes_context:
            calls = [functools.partial(_with_context, call, context) for call in calls]
        if len(calls) == 1:
            return calls[0]  # type: ignore[no-any-return]
        return lambda element: calls[context.stream](element)


def _with_timestamp(call: Callable[[Any, int], Any], time: CurrentTime, element: Any) -> Any:
    return call(element, NO_TIMESTAMP if time.ms is None else time.ms)


def _with_context(call: Callable[[Any, Any], Any], context: ChainContext, element: Any) -> Any:
    return call(element, context)


class StepRun:
    """A step whose function is open."""

    def __init__(self, step: Step, where: str, context: ChainContext) -> None:
        self._where = where
        self._what = step.what
        self._call = step.call(context)
        self._emits = step.emits
        self._time = context.time

    def outputs(
        self, elements: Elements, sides: Mapping[str, Callable[[Any], object]]
    ) -> Iterator[Any]:
        """The main outputs for these elements. `sides` receives side outputs, by the tag's id."""
        match self._emits:
            case Emits.RESULT:
                return self._results(elements)
            case Emits.RESULT_IF_ANY:
                return (each for each in self._results(elements) if each is not None)
            case Emits.ELEMENT:
                return self._selected(elements)
            case Emits.TIMED:
                return self._timed(elements)
            case Emits.RESULTS:
                return self._items(elements, sides)

    def _results(self, elements: Elements) -> Iterator[Any]:
        call = self._call
        for element in elements:
            try:
                result = call(element)
            except Exception as error:
                raise self.failure(error, element) from error
            yield result

    def _selected(self, elements: Elements) -> Iterator[Any]:
        call = self._call
        for element in elements:
            try:
                selected = bool(call(element))
            except Exception as error:
                raise self.failure(error, element) from error
            if selected:
                yield element

    def _timed(self, elements: Elements) -> Iterator[Any]:
        call, time = self._call, self._time
        for element in elements:
            try:
                found = call(element)
                if found.__class__ is not int:
                    found = _milliseconds(found)
            except Exception as error:
                raise self.failure(error, element) from error
            time.ms = found
            yield element

    def _items(
        self, elements: Elements, sides: Mapping[str, Callable[[Any], object]]
    ) -> Iterator[Any]:
        call = self._call
        for element in elements:
            try:
                results = call(element)
                if results is None:
                    continue
                if results.__class__ in NO_ITERABLES_OF_OUTPUTS:
                    raise TypeError(
                        f"it returned a {type(results).__name__}, whose items would be emitted one "
                        "by one: yield outputs, or return a list of outputs"
                    )
                # Errors of later steps are not raised here: a generator sees only its own.
                for result in results:
                    tag = tagged(result)
                    if tag is None:
                        yield result
                    elif tag.tag_id in sides:
                        sides[tag.tag_id](result[1])
            except Exception as error:
                raise self.failure(error, element) from error

    def failure(self, error: Exception, element: Any) -> QueryableStateError:
        """The error to raise for an error of the function at an element."""
        at = f"{self._where}, at element {shown(element)}"
        if isinstance(error, QueryableStateError):
            error.add_note(at)
            return error
        return UserFunctionError(
            f"{self._where}: {self._what} failed for element {shown(element)}: {described(error)}"
        )


def _milliseconds(found: Any) -> int:
    """A timestamp that is no int itself, such as an integer of numpy; TypeError if it is none."""
    if isinstance(found, bool) or not hasattr(found, "__index__"):
        raise TypeError(f"it returned {shown(found)}, but a timestamp is an int of milliseconds")
    return index(found)
