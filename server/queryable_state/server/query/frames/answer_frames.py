"""Answers as they stand in a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.v1 import query_pb2
from queryable_state.wire.values.varint import varint

if TYPE_CHECKING:
    from queryable_state.wire.errors import QueryableStateError

# Of the field of `ServerFrame`: length-delimited.
_ANSWER_TAG = (query_pb2.ServerFrame.ANSWER_FIELD_NUMBER << 3 | 2).to_bytes(1, "big")


def frame_of(answer: query_pb2.Answer) -> bytes:
    """The serialized `ServerFrame` of an answer."""
    # Put around it here: a message in another one is a copy of all its values.
    serialized = answer.SerializeToString()
    return _ANSWER_TAG + varint(len(serialized)) + serialized


def refusal_of(query_id: int, error: QueryableStateError) -> query_pb2.Answer:
    """The answer that refuses a whole query."""
    return query_pb2.Answer(id=query_id, last=True, error=error.to_proto())
