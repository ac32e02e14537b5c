"""Harness that runs an operator with two keyed inputs over batches of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming.co_functions import (
    CoFlatMapFunction,
    CoMapFunction,
    FlatMapBoth,
    KeyedCoProcessFunction,
    MapBoth,
)
from queryable_state.streaming.runtime.operators.operators import KeyedCoProcess
from queryable_state.streaming.testing.harness_input import HarnessInput
from queryable_state.streaming.testing.operator_harness import OperatorHarness
from queryable_state.wire.errors import KeyTypeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class TwoInputOperatorHarness(OperatorHarness):
    """An operator of two connected keyed streams, run batch by batch on lists of rows.

    In each batch the function gets the elements of the first input before those of the second.

        harness = TwoInputOperatorHarness(
            Enrich(), "user STRING, city STRING", "user STRING, amount DOUBLE",
            key_by=("user", "user"), output_type="user STRING, city STRING, amount DOUBLE",
        )
        harness.process([("ann", "Berlin")], [])
        assert harness.process([], [("ann", 9.5)]) == [("ann", "Berlin", 9.5)]
    """

    def __init__(
        self,
        function: KeyedCoProcessFunction | CoMapFunction | CoFlatMapFunction,
        first_type: object,
        second_type: object,
        *,
        key_by: tuple[str | Sequence[str], str | Sequence[str]],
        event_times: tuple[str, str] = ("", ""),
        **options: Any,
    ) -> None:
        """`key_by` has the key columns of each input, `event_times` the column with the timestamps
        of its elements (empty: they have none); `options` are those of `OperatorHarness`."""
        if isinstance(function, CoMapFunction):
            function = MapBoth(function)
        elif isinstance(function, CoFlatMapFunction):
            function = FlatMapBoth(function)
        inputs = [
            HarnessInput.of(
                input_type, what=f"input {number + 1}", key_by=keys, event_time=time, place=number
            )
            for number, (input_type, keys, time) in enumerate(
                zip((first_type, second_type), key_by, event_times, strict=True)
            )
        ]
        first, second = (each.key_type for each in inputs)
        if first != second:
            raise KeyTypeError(f"input 1 has keys of type {first}, input 2 of {second}")
        super().__init__(KeyedCoProcess(function), inputs, **options)

    def process(self, first: Iterable[Any], second: Iterable[Any]) -> list[Any]:
        """Runs a batch once on every subtask and commits it; returns the operator's outputs."""
        outputs = self.run(first, second)
        self.commit()
        return outputs

    def run(
        self, first: Iterable[Any], second: Iterable[Any], *, subtasks: Iterable[int] | None = None
    ) -> list[Any]:
        """Runs the open batch on these subtasks (None: all), as new task attempts."""
        return self._run([first, second], subtasks)
