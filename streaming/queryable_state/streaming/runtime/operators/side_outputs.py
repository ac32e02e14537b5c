"""Buffers of the side outputs of one operator in one task."""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING, Any

from queryable_state.streaming.runtime.operators.outputs import Outputs
from queryable_state.streaming.stateless.output_tag import tagged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from queryable_state.streaming.runtime.columns.event_time import CurrentTime
    from queryable_state.streaming.runtime.operators.operator_run import Output
    from queryable_state.streaming.runtime.operators.spec import OperatorSpec


class SideOutputs:
    """The side outputs that are read; those of other tags are dropped."""

    def __init__(self, spec: OperatorSpec, where: str) -> None:
        self._outputs = {
            tag.tag_id: Outputs(
                tag.type_info,
                spec.settings.output_rows,
                f"{where}, side output {tag.tag_id!r}",
                timed=spec.emits_event_time,
            )
            for tag in spec.side_outputs
        }

    def receivers(self, time: CurrentTime) -> dict[str, Callable[[Any], object]]:
        """What receives the side outputs of the current element, by the tag's id."""
        return {tag: outputs.appender(time) for tag, outputs in self._outputs.items()}

    def take(self, outputs: Outputs, start: int) -> None:
        """Takes the side outputs out of a function's outputs from this index on."""
        rows, times = outputs.rows[start:], outputs.times
        tags = list(map(tagged, rows))
        if not any(tags):
            return
        for number, tag in enumerate(tags):
            side = None if tag is None else self._outputs.get(tag.tag_id)
            if side is not None:
                side.rows.append(rows[number][1])
                if times is not None and side.times is not None:
                    side.times.append(times[start + number])
        is_main = [tag is None for tag in tags]
        outputs.rows[start:] = compress(rows, is_main)
        if times is not None:
            times[start:] = compress(times[start:], is_main)

    def batches(self, *, only_full: bool) -> Iterator[Output]:
        """The rows of each side output, under the output's number."""
        for number, outputs in enumerate(self._outputs.values(), start=1):
            for batch in outputs.full_batches() if only_full else outputs.all_batches():
                yield number, batch
