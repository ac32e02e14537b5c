"""Positions of an answer's keys within their query."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.v1 import query_pb2

if TYPE_CHECKING:
    from collections.abc import Sequence


def value_positions(answer: query_pb2.Answer, keys: int) -> Sequence[int]:
    """Returns the position of each value's key in a query of `keys` keys."""
    if answer.indexes or not answer.values:
        return answer.indexes
    others = {*answer.missing, *(at for failed in answer.failed for at in failed.indexes)}
    return [at for at in range(keys) if at not in others]


def placed_at(positions: Sequence[int], answer: query_pb2.Answer) -> query_pb2.Answer:
    """Translates an answer to a sub-query into one to the whole query, by `positions`."""
    if answer.HasField("error"):
        failed = [query_pb2.KeyFailure(indexes=positions, error=answer.error)]
        return query_pb2.Answer(failed=failed, info=answer.info)
    return query_pb2.Answer(
        values=answer.values,
        indexes=[positions[at] for at in value_positions(answer, len(positions))],
        missing=[positions[at] for at in answer.missing],
        failed=[
            query_pb2.KeyFailure(
                indexes=[positions[at] for at in failed.indexes], error=failed.error
            )
            for failed in answer.failed
        ],
        info=answer.info,
    )
