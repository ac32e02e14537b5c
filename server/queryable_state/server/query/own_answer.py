"""What a proxy answers without asking anybody."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.query.retries import is_retried

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from queryable_state.server.query.router import Engine
    from queryable_state.v1 import query_pb2
    from queryable_state.wire.located_state import Owner


def own_answer(
    query: query_pb2.Query,
    by_owner: Mapping[Owner, Sequence[int]],
    engine: Engine | None,
    server_id: str,
) -> query_pb2.Answer | None:
    """The whole answer where this process owns all keys and has nothing to ask again."""
    if engine is None or len(by_owner) != 1 or next(iter(by_owner)).server_id != server_id:
        return None
    answer = engine.answer(query)
    if answer is None:
        return None
    if answer.HasField("error"):
        return None if is_retried(answer.error) else answer
    return None if any(is_retried(failed.error) for failed in answer.failed) else answer
