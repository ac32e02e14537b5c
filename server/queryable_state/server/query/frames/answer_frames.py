"""Encoding of answers as serialized `ServerFrame`s."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.v1 import query_pb2
from queryable_state.wire.values.varint import varint

if TYPE_CHECKING:
    from queryable_state.wire.errors import QueryableStateError

# Tag of the field `answer` of `ServerFrame`: length-delimited.
_ANSWER_TAG = (query_pb2.ServerFrame.ANSWER_FIELD_NUMBER << 3 | 2).to_bytes(1, "big")

# The varints of one byte.
_VARINTS = tuple(bytes((number,)) for number in range(128))
# Position 0, in the packed field `missing` of `Answer`.
_FIRST_IS_MISSING = query_pb2.Answer(missing=(0,)).SerializeToString()


def frame_of(answer: query_pb2.Answer) -> bytes:
    """Returns the serialized `ServerFrame` of an answer."""
    # Written by hand, because setting the field would copy all values into another message.
    serialized = answer.SerializeToString()
    return _ANSWER_TAG + varint(len(serialized)) + serialized


def value_frame(query_id: int, value: bytes, info: bytes) -> bytes:
    """Returns the serialized `ServerFrame` of the answer to a query of one key.

    `value` is the stored value, empty if the key is absent; `info` is the serialized field `info`
    of an `Answer`, as `info_field` returns it. Equal to `frame_of` of such an answer.
    """
    size = len(value)
    if size:
        found = b"\x22" + (_VARINTS[size] if size < 128 else varint(size)) + value
    else:
        found = _FIRST_IS_MISSING
    # Protobuf leaves out the id 0.
    body = (b"\x08" + varint(query_id) if query_id else b"") + b"\x18\x01" + found + info
    size = len(body)
    return _ANSWER_TAG + (_VARINTS[size] if size < 128 else varint(size)) + body


def info_field(info: query_pb2.ReadInfo) -> bytes:
    """Returns the serialized field `info` of an `Answer`."""
    return query_pb2.Answer(info=info).SerializeToString()


def refusal_of(query_id: int, error: QueryableStateError) -> query_pb2.Answer:
    """Returns the answer that refuses a whole query."""
    return query_pb2.Answer(id=query_id, last=True, error=error.to_proto())
