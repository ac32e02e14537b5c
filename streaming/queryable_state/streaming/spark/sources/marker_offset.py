"""Offsets of marker sources in the offset log of a query."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

MARKER_FORMAT: Final = "queryable_state_clock"
"""The format of a marker source in Spark."""

_CLOCK: Final = "clock"
_TICK: Final = "tick"
_ENDED: Final = "ended"


@dataclass(frozen=True)
class MarkerOffset:
    """The offset of a marker source. It moves by one tick for each batch that the query needs."""

    clock_id: str = ""
    """Id of the source in one run of its query; empty before the first tick."""
    tick: int = 0
    ended: bool = False
    """True if the watermark of the batch is the end of event time."""

    @staticmethod
    def parse(line: str | bytes) -> MarkerOffset | None:
        """The offset in a line of the offset log; None if the line is of another source."""
        try:
            found = json.loads(line)
        except ValueError:
            return None
        if not isinstance(found, dict) or found.keys() != {_CLOCK, _TICK, _ENDED}:
            return None
        return MarkerOffset.of(found)

    @staticmethod
    def of(offset: dict[str, Any]) -> MarkerOffset:
        """The offset as Spark returns it to the source."""
        return MarkerOffset(str(offset[_CLOCK]), int(offset[_TICK]), bool(offset[_ENDED]))

    def as_dict(self) -> dict[str, Any]:
        """The offset as the source gives it to Spark, which logs it as JSON."""
        return {_CLOCK: self.clock_id, _TICK: self.tick, _ENDED: self.ended}
