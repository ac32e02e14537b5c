"""Which keys of a query an answer speaks of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.v1 import query_pb2

if TYPE_CHECKING:
    from collections.abc import Sequence


def value_positions(answer: query_pb2.Answer, keys: int) -> Sequence[int]:
    """Where the keys of the values stand in a query of so many keys, aligned with `values`."""
    if answer.indexes or not answer.values:
        return answer.indexes
    others = {*answer.missing, *(at for failed in answer.failed for at in failed.indexes)}
    return [at for at in range(keys) if at not in others]


def placed_at(positions: Sequence[int], answer: query_pb2.Answer) -> query_pb2.Answer:
    """An answer to a query of some keys as one to the query that has them at `positions`."""
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
