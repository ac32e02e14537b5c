"""Judgement of changed serializers by the task that declares them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.wire.schema.serializer_changes import unjudged_formats
from queryable_state.wire.schema.serializer_formats import readable_as
from queryable_state.wire.schema.type_model import Kind, TypeInfo

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from queryable_state.streaming.descriptors import StateDescriptor
    from queryable_state.v1.registration_pb2 import StateRegistration
    from queryable_state.wire.errors import JobError


def judge_serializers(
    refusal: JobError,
    registrations: Sequence[StateRegistration],
    descriptors: Sequence[StateDescriptor],
    where: str,
) -> None:
    """Adds the formats that the refusal of a begin asks about to the registration of their state.

    `registrations` and `descriptors` are aligned. Raises JobError (INCOMPATIBLE_STATE) if a
    declared serializer cannot read a stored format, and any other refusal again; nothing is
    registered then.
    """
    question = unjudged_formats(refusal)
    if question is None:
        raise refusal
    state_name, forms = question
    position = [descriptor.name for descriptor in descriptors].index(state_name)
    readable = registrations[position].readable_serializers
    for form in forms:
        stored = TypeInfo(Kind.CUSTOM, serializer_format=form)
        declared = [
            info
            for info in _custom_types_of(descriptors[position])
            if info.format_name == form.name
        ]
        if not declared or form.to_proto() in readable:
            raise refusal
        for info in declared:
            readable_as(stored, info, f"{where}: state {state_name!r}")
        readable.append(form.to_proto())


def _custom_types_of(descriptor: StateDescriptor) -> Iterator[TypeInfo]:
    for root in (descriptor.value_type, descriptor.accumulator_type):
        if root is not None:
            yield from _custom_types(root)


def _custom_types(info: TypeInfo) -> Iterator[TypeInfo]:
    if info.kind == Kind.CUSTOM:
        yield info
    for field in info.fields:
        yield from _custom_types(field.type)
    if info.element is not None:
        yield from _custom_types(info.element)
