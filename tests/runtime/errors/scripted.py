"""A keyed function whose body is given by the test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming.descriptors import MapStateDescriptor, ValueStateDescriptor
from queryable_state.streaming.functions import KeyedProcessFunction
from queryable_state.streaming.testing import KeyedOperatorHarness

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.streaming.functions import Context, RuntimeContext


WHERE = r"operator 'alerts' \(uid operator\), subtask \d of 2, batch 0"


class Scripted(KeyedProcessFunction):
    """Runs one given callable on each element."""

    def __init__(
        self,
        body: Callable[[Scripted, Any, Context], Any],
        opened: Callable[[Scripted, RuntimeContext], Any] | None = None,
    ) -> None:
        self.body = body
        self.opened = opened

    def open(self, runtime_context: RuntimeContext) -> None:
        self.context = runtime_context
        self.state = runtime_context.get_state(ValueStateDescriptor("state", "int"))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", "string", "int"))
        if self.opened is not None:
            self.opened(self, runtime_context)

    def process_element(self, value: Any, ctx: Context) -> Any:
        return self.body(self, value, ctx)


def scripted(
    body: Callable[..., Any], output_type: object = None, **kw: Any
) -> KeyedOperatorHarness:
    return KeyedOperatorHarness(
        Scripted(body, kw.pop("opened", None)),
        "sensor STRING, degrees DOUBLE",
        key_by="sensor",
        output_type=output_type,
        name="alerts",
        **kw,
    )


ROWS = [("a", 1.0), ("b", 0.0)]
