"""Operators over the windows of a stream: triggers, lateness and functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from queryable_state.streaming.descriptors import ListStateDescriptor, ValueStateDescriptor
from queryable_state.streaming.functions import (
    AggregateFunction,
    AggregatingStateDescriptor,
    ReducingStateDescriptor,
)
from queryable_state.streaming.hooks import refuse_uncalled_hooks
from queryable_state.streaming.runtime.windows.window_kind import WindowKind
from queryable_state.streaming.runtime.windows.window_operator import CONTENTS_NAME, WindowOperator
from queryable_state.streaming.stateless.output_tag import OutputTag
from queryable_state.streaming.streams.rolling import Rolling, RollingAggregate
from queryable_state.streaming.windows.assigner import MergingWindowAssigner, WindowAssigner
from queryable_state.streaming.windows.trigger import Trigger
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.schema.inference import infer_type
from queryable_state.wire.schema.types import Types, type_info

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.streaming.functions import ReduceFunction
    from queryable_state.streaming.graph.nodes import OperatorNode
    from queryable_state.streaming.operator_handles import StreamEnvironment
    from queryable_state.streaming.streams.keyed_input import KeyedInput
    from queryable_state.streaming.windows.window_functions import AnyWindowFunction
    from queryable_state.wire.schema.types import TypeInfo

S = TypeVar("S")


class WindowOperators(Generic[S]):
    """Elements grouped by key and window; S is the class of the resulting stream."""

    _apply_class: ClassVar[type]
    """The class of functions that `apply` takes."""
    _process_class: ClassVar[type]
    """The class of functions that `process` takes."""

    def __init__(
        self,
        read: KeyedInput,
        window_assigner: WindowAssigner,
        stream_of: Callable[[OperatorNode], S],
    ) -> None:
        if not isinstance(window_assigner, WindowAssigner):
            raise InvalidRequestError(
                "window takes a WindowAssigner such as TumblingEventTimeWindows.of("
                f"Time.minutes(1)), not {window_assigner!r}"
            )
        _ = WindowKind.of(window_assigner)  # Raises if state cannot be kept by its windows.
        if window_assigner.is_event_time() and not read.columns.timestamps:
            raise InvalidRequestError(
                f"window({window_assigner!r}): windows of event time need elements with event "
                "time, and these have none: call assign_timestamps_and_watermarks on the stream "
                "before key_by, or withWatermark on its DataFrame, or use windows of processing "
                "time"
            )
        self._input = read
        self._assigner = window_assigner
        self._stream_of = stream_of
        self._trigger: Trigger | None = None
        self._allowed_lateness_ms = 0
        self._late_tag: OutputTag | None = None

    def get_execution_environment(self) -> StreamEnvironment:
        """The environment of the stream."""
        return self._input.environment

    def get_input_type(self) -> TypeInfo:
        """The type of the elements."""
        return self._input.element_type("get_input_type")

    def trigger(self, trigger: Trigger) -> Self:
        """Sets the trigger; without one it is the default trigger of the assigner."""
        if not isinstance(trigger, Trigger):
            raise InvalidRequestError(
                f"trigger takes a Trigger such as CountTrigger.of(10), not {trigger!r}"
            )
        if isinstance(self._assigner, MergingWindowAssigner) and not trigger.can_merge():
            raise InvalidRequestError(
                f"{type(trigger).__name__} cannot be used with {self._assigner!r}, whose windows "
                "are merged: use a trigger whose can_merge() is true"
            )
        self._trigger = trigger
        return self

    def allowed_lateness(self, time_ms: int) -> Self:
        """Sets for how long after its end, in milliseconds, a window takes late elements.

        Until then its state is kept, and each late element makes it fire again. The default is 0.
        Windows of processing time have no late elements.
        """
        if type(time_ms) is not int or time_ms < 0:
            raise InvalidRequestError(
                f"allowed_lateness takes a number of milliseconds from 0 on, not {time_ms!r}"
            )
        self._allowed_lateness_ms = time_ms
        return self

    def side_output_late_data(self, output_tag: OutputTag) -> Self:
        """Emits elements that are late for all their windows to a side output of the result:
        `result.get_side_output(output_tag)`. Without it they are dropped."""
        if not isinstance(output_tag, OutputTag):
            raise InvalidRequestError(
                f"side_output_late_data takes an OutputTag, not {output_tag!r}"
            )
        self._late_tag = output_tag
        return self

    def _reduce(
        self,
        reduce_function: ReduceFunction[Any] | Callable[[Any, Any], Any],
        window_function: AnyWindowFunction | None,
        output_type: object,
        queryable_name: str | None,
    ) -> S:
        element = self._input.element_type("reduce")
        contents = ReducingStateDescriptor(CONTENTS_NAME, reduce_function, element)
        if output_type is None and window_function is None:
            output_type = element
        return self._stream("reduce", contents, window_function, output_type, queryable_name)

    def _aggregate(
        self,
        aggregate_function: AggregateFunction[Any, Any, Any],
        window_function: AnyWindowFunction | None,
        accumulator_type: object,
        output_type: object,
        queryable_name: str | None,
    ) -> S:
        if not isinstance(aggregate_function, AggregateFunction):
            raise InvalidRequestError(
                f"aggregate takes an AggregateFunction, not {aggregate_function!r}"
            )
        if isinstance(accumulator_type, list):
            accumulator_type = Types.ROW(accumulator_type)
        result = None
        if window_function is None:
            if output_type is None:
                name = f"aggregate({type(aggregate_function).__name__})"
                output_type = infer_type(aggregate_function.get_result, name)
            result = output_type
        elif queryable_name is not None:
            name = f"aggregate({type(aggregate_function).__name__})"
            result = infer_type(aggregate_function.get_result, name)
        contents = AggregatingStateDescriptor(
            CONTENTS_NAME, aggregate_function, accumulator_type, result
        )
        return self._stream("aggregate", contents, window_function, output_type, queryable_name)

    def _listed(self, kind: str, function: AnyWindowFunction, output_type: object) -> S:
        contents = ListStateDescriptor(CONTENTS_NAME, self._input.element_type(kind))
        return self._stream(kind, contents, function, output_type, None)

    def _rolling(self, kind: Rolling, position: int | str) -> S:
        element = self._input.element_type(kind)
        contents = ReducingStateDescriptor(
            CONTENTS_NAME, RollingAggregate(kind, position, element), element
        )
        return self._stream(str(kind), contents, None, element, None)

    def _stream(
        self,
        kind: str,
        contents: ListStateDescriptor | ReducingStateDescriptor | AggregatingStateDescriptor,
        function: AnyWindowFunction | None,
        output_type: object,
        queryable_name: str | None,
    ) -> S:
        self._check_function(kind, function)
        if queryable_name is not None:
            contents.set_queryable(queryable_name)
        if output_type is None:
            assert function is not None
            call: Any = getattr(function, "process", None) or getattr(function, "apply", None)
            output = infer_type(call, f"{kind}({type(function).__name__})", elements=True)
        else:
            output = type_info(output_type)
        operator = self._operator(contents, function)
        node = self._input.operator(f"window-{kind}", operator, output)
        node.description = self._described(operator)
        return self._stream_of(node)

    def _queryable_node(
        self,
        name: str,
        descriptor: ReducingStateDescriptor | AggregatingStateDescriptor,
        *,
        fired: bool,
    ) -> OperatorNode:
        """Adds an operator that makes its windows queryable: live ones, or the newest that has
        `fired`."""
        kept: ValueStateDescriptor | None = None
        contents = descriptor
        if not fired:
            if contents.queryable_name != name:
                contents.set_queryable(name)
        else:
            result = descriptor.value_type
            if result is None:
                raise InvalidRequestError(
                    f"as_queryable_state({name!r}): {descriptor!r} has no result type: pass "
                    "result_type_info= to it"
                )
            kept = ValueStateDescriptor(descriptor.name, result)
            kept.set_queryable(name)
            if descriptor.ttl_config is not None:
                kept.enable_time_to_live(descriptor.ttl_config)
            if isinstance(descriptor, ReducingStateDescriptor):
                contents = ReducingStateDescriptor(CONTENTS_NAME, descriptor.function, result)
            else:
                contents = AggregatingStateDescriptor(
                    CONTENTS_NAME, descriptor.function, descriptor.accumulator_type, result
                )
        return self._input.queryable_windows(name, descriptor, self._operator(contents, None, kept))

    def _operator(
        self,
        contents: ListStateDescriptor | ReducingStateDescriptor | AggregatingStateDescriptor,
        function: AnyWindowFunction | None,
        fired: ValueStateDescriptor | None = None,
    ) -> WindowOperator:
        trigger = self._trigger
        return WindowOperator(
            assigner=self._assigner,
            trigger=self._assigner.get_default_trigger(None) if trigger is None else trigger,
            contents=contents,
            function=function,
            allowed_lateness_ms=self._allowed_lateness_ms,
            late_tag=self._late_tag,
            fired=fired,
        )

    def _described(self, operator: WindowOperator) -> str:
        """The operator in the plan: assigner, trigger and functions."""
        functions = (operator.contents.function, operator.function)
        named = [operator.trigger, *(each for each in functions if each is not None)]
        names = [getattr(each, "__name__", type(each).__name__) for each in named]
        return f"Window({operator.assigner!r}, {', '.join(names)})"

    def _check_function(self, kind: str, function: object) -> None:
        allowed: tuple[type, ...] = (self._apply_class, self._process_class)
        if kind == "apply":
            allowed = (self._apply_class,)
        elif kind == "process":
            allowed = (self._process_class,)
        elif function is None:
            return
        if not isinstance(function, allowed):
            names = " or ".join(each.__name__ for each in allowed)
            raise TypeError(f"the window function of {kind} is a {names}, not {function!r}")
        refuse_uncalled_hooks(function)
