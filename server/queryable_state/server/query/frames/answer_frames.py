"""Encoding of answers as serialized `ServerFrame`s."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.v1 import query_pb2
from queryable_state.wire.values.varint import varint

if TYPE_CHECKING:
    from queryable_state.wire.errors import QueryableStateError

# Tag of the field `answer` of `ServerFrame`: length-delimited.
_ANSWER_TAG = (query_pb2.ServerFrame.ANSWER_FIELD_NUMBER << 3 | 2).to_bytes(1, "big")


def frame_of(answer: query_pb2.Answer) -> bytes:
    """Returns the serialized `ServerFrame` of an answer."""
    # Written by hand, because setting the field would copy all values into another message.
    serialized = answer.SerializeToString()
    return _ANSWER_TAG + varint(len(serialized)) + serialized


def refusal_of(query_id: int, error: QueryableStateError) -> query_pb2.Answer:
    """Returns the answer that refuses a whole query."""
    return query_pb2.Answer(id=query_id, last=True, error=error.to_proto())
