"""CUSTOM types: their serializers, and the formats of earlier serializers of the same state."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING, Any

from queryable_state.wire.errors import InvalidRequestError, JobError
from queryable_state.wire.schema.type_model import Kind, SerializerFormat, TypeInfo
from queryable_state.wire.schema.type_serializer import TypeSerializerSnapshot

if TYPE_CHECKING:
    from queryable_state.wire.schema.type_serializer import TypeSerializer


def custom_type(serializer: TypeSerializer[Any]) -> TypeInfo:
    """The type of a serializer's values."""
    snapshot = serializer.snapshot()
    if not isinstance(snapshot, TypeSerializerSnapshot):
        raise InvalidRequestError(
            f"{serializer!r}: snapshot() returned {snapshot!r}, but must return a "
            "TypeSerializerSnapshot"
        )
    stream = BytesIO()
    snapshot.write_snapshot(stream)
    form = SerializerFormat(serializer.name(), snapshot.get_current_version(), stream.getvalue())
    return TypeInfo(Kind.CUSTOM, serializer_format=form, serializer=serializer)


def readable_as(old: TypeInfo, new: TypeInfo, where: str) -> TypeInfo:
    """The CUSTOM type of stored bytes, with a serializer that reads them for a program of `new`.

    Without a serializer in `new` the bytes stay bytes. Raises JobError (INCOMPATIBLE_STATE) if the
    new serializer is incompatible with the stored format.
    """
    if old == new or new.serializer is None:
        return new if old == new else old
    stored, current = old.serializer_format, new.serializer_format
    assert stored is not None
    assert current is not None
    if stored.name != current.name:
        raise JobError(
            f"{where} was written by serializer {stored.name} and is declared with "
            f"{current.name}: if {current.name} reads its bytes, return {stored.name!r} from its "
            "name(); else give the state another name"
        )
    snapshot = new.serializer.snapshot()
    before = type(snapshot)()
    before.read_snapshot(stored.version, BytesIO(stored.configuration))
    compatibility = snapshot.resolve_schema_compatibility(before)
    if compatibility.is_compatible_as_is():
        return replace(old, serializer=new.serializer)
    if compatibility.is_compatible_after_migration():
        return replace(old, serializer=before.restore_serializer())
    raise JobError(
        f"{where}: serializer {current.name} is incompatible with the stored values, whose "
        f"snapshot of version {stored.version} is {stored.configuration[:100]!r}: "
        "resolve_schema_compatibility returned INCOMPATIBLE. Change the serializer back, or give "
        "the state another name"
    )
