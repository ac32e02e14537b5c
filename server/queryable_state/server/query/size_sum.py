"""Sum of the sizes of the parts of a state."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from queryable_state.v1 import query_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def size_of(
    parts: Sequence[query_pb2.StatePart], *, complete: bool
) -> query_pb2.MeasureStateResponse:
    """The sum of parts that have no key group in common; `complete`: they have all key groups."""
    return query_pb2.MeasureStateResponse(
        keys=sum(part.keys for part in parts),
        records=sum(part.records for part in parts),
        bytes=sum(part.bytes for part in parts),
        keys_error=_error(part.keys_error for part in parts),
        records_error=_error(part.records_error for part in parts),
        bytes_error=_error(part.bytes_error for part in parts),
        parts=parts,
        complete=complete and not any(part.HasField("error") for part in parts),
        exact=complete and all(part.exact for part in parts),
    )


def _error(errors: Iterable[int]) -> int:
    """The error of a sum of independent estimates."""
    return round(math.hypot(*errors))
