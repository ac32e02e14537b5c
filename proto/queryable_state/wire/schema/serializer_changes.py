"""Changes of a job's own serializers, which only the job's program can judge."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from queryable_state.v1 import registration_pb2
from queryable_state.wire.errors import JobError, Reason
from queryable_state.wire.schema.type_model import Kind, SerializerFormat, TypeInfo, given

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def check_serializers(
    versions: Iterable[TypeInfo],
    new: TypeInfo,
    asked: registration_pb2.StateRegistration,
    where: str,
) -> None:
    """Raises INCOMPATIBLE_STATE if a stored format is neither the new one nor readable.

    `asked` has the formats that the requesting program reads. The error carries the formats that
    the program must judge: `unjudged_formats`.
    """
    known = set(map(SerializerFormat.from_proto, asked.readable_serializers))
    unknown = {form: None for old in versions for form in _changed(old, new) if form not in known}
    if unknown:
        question = registration_pb2.StateRegistration(
            state_name=asked.state_name,
            readable_serializers=[form.to_proto() for form in unknown],
        )
        raise JobError(
            f"{where} was written by another version of its serializer "
            f"({', '.join(sorted({form.name for form in unknown}))}), and the declared serializer "
            "has not said that it reads the stored values: change it back, make "
            "resolve_schema_compatibility of its snapshot accept them, or give the state another "
            "name",
            candidates=[base64.b64encode(question.SerializeToString()).decode()],
        )


def unjudged_formats(refusal: JobError) -> tuple[str, list[SerializerFormat]] | None:
    """The state and the formats that a refusal of `check_serializers` asks about.

    None for other errors.
    """
    if refusal.reason != Reason.INCOMPATIBLE_STATE or not refusal.candidates:
        return None
    question = registration_pb2.StateRegistration.FromString(
        base64.b64decode(refusal.candidates[0])
    )
    forms = map(SerializerFormat.from_proto, question.readable_serializers)
    return question.state_name, list(forms)


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
