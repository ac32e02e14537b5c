"""Values of a job's own serializers, which stay bytes for readers without the serializer."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

from queryable_state.wire.errors import SerializationError

if TYPE_CHECKING:
    from queryable_state.wire.schema.type_serializer import TypeSerializer


class SerializedValue(bytes):
    """The bytes that a serializer of the job wrote."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"SerializedValue({len(self)} bytes)"


def serialized(value: object, serializer: TypeSerializer[Any], path: str) -> bytes:
    """The bytes of a value; `path` names the value in errors."""
    if isinstance(value, SerializedValue):
        return bytes(value)
    stream = BytesIO()
    try:
        serializer.serialize(value, stream)
    except Exception as error:
        raise SerializationError(
            f"{path} cannot be serialized by {serializer!r}: {type(error).__name__}: {error}"
        ) from error
    return stream.getvalue()


def deserialized(data: bytes, serializer: TypeSerializer[Any]) -> Any:
    """The value of the bytes; raises SerializationError if the serializer fails or leaves bytes."""
    stream = BytesIO(data)
    try:
        value = serializer.deserialize(stream)
    except Exception as error:
        raise SerializationError(
            f"{serializer!r} cannot read a stored value: {type(error).__name__}: {error}"
        ) from error
    left = len(data) - stream.tell()
    if left:
        raise SerializationError(
            f"{serializer!r} left {left} of {len(data)} bytes of a stored value unread"
        )
    return value
