"""An answer with the way to it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from queryable_state.server.query.reads.point_read import PointRead
    from queryable_state.v1 import query_pb2
    from queryable_state.wire.located_state import LocatedState


@dataclass(frozen=True)
class Explained:
    """The answer to a query of one key, and what was done for it."""

    answers: list[query_pb2.Answer] = field(repr=False)
    """All parts; a refusal stands in them."""

    explanation: query_pb2.ExplainKvStateResponse
    """Where the key is, and the steps by when they were begun, each with the server that took it.

    Without `response`, `error`, `total_us` and `owner_address`, which the service fills in.
    """


async def explained_response(
    read: PointRead, explained: Explained, located: LocatedState, arrived_ns: int
) -> query_pb2.ExplainKvStateResponse:
    """The explanation with what `GetKvState` answers, or refuses with.

    What is missing has the batch it is missing of, too.
    """
    response, key = explained.explanation, read.query.keys[0]
    try:
        response.response.CopyFrom(await read.response(explained.answers))
    except QueryableStateError as refusal:
        response.error.CopyFrom(refusal.to_proto())
        for answer in explained.answers:
            if answer.missing:
                response.response.info.CopyFrom(answer.info)
    if not response.owner_address and len(key) > 1:
        group = key[0] << 8 | key[1]
        if group < len(located.by_key_group):
            response.owner_address = located.by_key_group[group].address
    response.total_us = (time.perf_counter_ns() - arrived_ns) // 1000
    return response
