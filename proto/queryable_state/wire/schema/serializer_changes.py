"""Changes of a job's own serializers, which only the job's program can judge."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from queryable_state.v1 import types_pb2
from queryable_state.wire.errors import JobError
from queryable_state.wire.schema.type_model import Kind, SerializerFormat, TypeInfo, given

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def check_serializers(
    versions: Iterable[TypeInfo], new: TypeInfo, readable: Iterable[SerializerFormat], where: str
) -> None:
    """Raises INCOMPATIBLE_STATE if a stored format is neither the new one nor readable.

    `readable` are the formats that the requesting program reads. `candidates` of the error are the
    encoded formats that it must judge: `unjudged_formats`.
    """
    known = set(readable)
    unknown = {form: None for old in versions for form in _changed(old, new) if form not in known}
    if unknown:
        raise JobError(
            f"{where} was written by another version of its serializer "
            f"({', '.join(sorted({form.name for form in unknown}))}), and the declared serializer "
            "has not said that it reads the stored values: change it back, make "
            "resolve_schema_compatibility of its snapshot accept them, or give the state another "
            "name",
            candidates=[
                base64.b64encode(form.to_proto().SerializeToString()).decode() for form in unknown
            ],
        )


def unjudged_formats(refusal: JobError) -> list[SerializerFormat]:
    """The formats that a refusal of `check_serializers` asks about; empty for other errors."""
    if refusal.reason != refusal.default_reason:
        return []
    return [
        SerializerFormat.from_proto(
            types_pb2.SerializerSnapshot.FromString(base64.b64decode(candidate))
        )
        for candidate in refusal.candidates
    ]


def _changed(old: TypeInfo, new: TypeInfo) -> Iterator[SerializerFormat]:
    """The formats in the old type whose counterpart in the new type is another one."""
    if old.kind != new.kind or old == new:
        return
    if old.serializer_format is not None:
        yield old.serializer_format
    if old.kind == Kind.ROW:
        after = {field.name: field.type for field in new.fields}
        for field in old.fields:
            yield from _changed(field.type, after.get(field.name, field.type))
    for before, field in zip(old.fields, new.fields, strict=False):
        if old.kind == Kind.TUPLE:
            yield from _changed(before.type, field.type)
    if old.element is not None:
        yield from _changed(old.element, given(new.element))
