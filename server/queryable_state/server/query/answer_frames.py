"""Answers as they stand in a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.v1 import query_pb2

if TYPE_CHECKING:
    from queryable_state.wire.errors import QueryableStateError


def frame_of(answer: query_pb2.Answer) -> bytes:
    """The serialized `StreamKvStateResponse` of an answer."""
    return query_pb2.StreamKvStateResponse(answer=answer).SerializeToString()


def refusal_of(query_id: int, refusal: QueryableStateError) -> bytes:
    """The frame that refuses a whole query."""
    return frame_of(query_pb2.Answer(id=query_id, last=True, error=refusal.to_proto()))
