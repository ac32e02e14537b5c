"""Outputs of an operator under test, each with its timestamp."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from queryable_state.streaming.runtime.columns.event_time import EVENT_TIME_COLUMN
from queryable_state.streaming.runtime.operators.spec import columns_of
from queryable_state.streaming.runtime.stateless.elements import ElementReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from queryable_state.streaming.testing.operator_harness import OperatorHarness


def timed(harness: OperatorHarness) -> OperatorHarness:
    """The harness with an operator whose outputs have timestamps.

    The timestamps of an input are its column `at`, which is not part of the elements.
    """
    inputs = []
    for each in harness._inputs:
        fields = [field for field in each.fields if field.name != "at"]
        names = tuple(field.name for field in fields)
        info = replace(each.spec.value_type, fields=tuple(fields))
        event_time = "at" if len(fields) < len(each.fields) else ""
        inputs.append(
            replace(each.spec, value_columns=names, value_type=info, event_time=event_time)
        )
    harness.spec = replace(harness.spec, inputs=tuple(inputs), emits_event_time=True)
    return harness


def outputs(
    harness: OperatorHarness, *rows: Iterable[Any], number: int = 0
) -> list[tuple[Any, int | None]]:
    """Runs a batch on subtask 0, and commits it; the outputs with this number, each with its
    timestamp."""
    info = (
        harness.spec.output_type if number == 0 else harness.spec.side_outputs[number - 1].type_info
    )
    assert info is not None
    read = ElementReader(columns_of(info), info)
    parts = [harness._parts(place, of)[0] for place, of in enumerate(rows)]
    stage = harness._stage
    found: list[tuple[Any, int | None]] = []
    for batch in harness.attempt(0, [each for part in parts for each in part]):
        split: Sequence[tuple[int, Any]] = [(0, batch)]
        if stage.outputs is not None:
            split = list(stage.outputs.split(batch))
        for part, of_part in split:
            if stage.parts[part][1] == number:
                times = of_part.column(EVENT_TIME_COLUMN).to_pylist()
                found += zip(read(of_part), times, strict=True)
    harness.commit()
    return found
