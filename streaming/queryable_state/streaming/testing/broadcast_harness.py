"""Harness that runs an operator with a broadcast input over batches of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming.operator_state.broadcast_functions import (
    BroadcastProcessFunction,
)
from queryable_state.streaming.runtime.operators.operators import (
    BroadcastProcess,
    KeyedBroadcastProcess,
)
from queryable_state.streaming.testing.harness_input import HarnessInput
from queryable_state.streaming.testing.operator_harness import OperatorHarness

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from queryable_state.streaming.descriptors import MapStateDescriptor
    from queryable_state.streaming.operator_state.broadcast_functions import (
        KeyedBroadcastProcessFunction,
    )
    from queryable_state.streaming.ordering import OrderBy


class BroadcastOperatorHarness(OperatorHarness):
    """An operator with a broadcast input, run batch by batch on lists of rows.

    Every subtask reads all broadcast elements of a batch, before its other elements. The rows of a
    `BroadcastProcessFunction` need no `key_by`; if they have one, it only distributes them.

        harness = BroadcastOperatorHarness(
            Alerts(), [RULES], "sensor STRING, degrees DOUBLE", "rule STRING, limit DOUBLE",
            key_by="sensor", output_type="sensor STRING, rule STRING",
        )
        alerts = harness.process([("sensor_1", 30.0)], broadcast=[("hot", 25.0)])
    """

    def __init__(
        self,
        function: KeyedBroadcastProcessFunction | BroadcastProcessFunction,
        descriptors: Sequence[MapStateDescriptor],
        input_type: object,
        broadcast_type: object,
        *,
        key_by: str | Sequence[str] = (),
        order_by: OrderBy | None = None,
        event_times: tuple[str, str] = ("", ""),
        **options: Any,
    ) -> None:
        """`descriptors` are those of the broadcast states; `event_times` are the columns
        with the timestamps of the elements and of the broadcast elements, empty for none;
        `options` are those of `OperatorHarness`."""
        operator: Any = KeyedBroadcastProcess
        if isinstance(function, BroadcastProcessFunction):
            operator = BroadcastProcess
        elements = HarnessInput.of(
            input_type, what="input", key_by=key_by, order_by=order_by, event_time=event_times[0]
        )
        broadcast = HarnessInput.of(
            broadcast_type,
            what="broadcast input",
            is_broadcast=True,
            place=1,
            event_time=event_times[1],
        )
        super().__init__(operator(function, tuple(descriptors)), [elements, broadcast], **options)

    def process(self, rows: Iterable[Any], broadcast: Iterable[Any] = ()) -> list[Any]:
        """Runs a batch once on every subtask and commits it; returns the operator's outputs."""
        outputs = self.run(rows, broadcast=broadcast)
        self.commit()
        return outputs

    def run(
        self,
        rows: Iterable[Any],
        *,
        subtasks: Iterable[int] | None = None,
        broadcast: Iterable[Any] = (),
    ) -> list[Any]:
        """Runs the open batch on these subtasks (None: all), as new task attempts."""
        # The inputs' batches arrive in this order; the stage passes broadcast elements first.
        return self._run([rows, broadcast], subtasks)
