"""Judgement of changed serializers by the task that declares them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.wire.errors import JobError
from queryable_state.wire.schema.serializer_changes import unjudged_formats
from queryable_state.wire.schema.serializer_formats import readable_as
from queryable_state.wire.schema.type_model import Kind, TypeInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from queryable_state.internal.v1.backend_pb2 import BeginResponse
    from queryable_state.streaming.descriptors import StateDescriptor
    from queryable_state.v1.registration_pb2 import StateRegistration


def begin_with_serializers(
    begin: Callable[[Sequence[StateRegistration]], BeginResponse],
    registrations: Sequence[StateRegistration],
    descriptors: Iterable[StateDescriptor],
    where: str,
) -> BeginResponse:
    """Begins, and judges the stored formats that the coordinator asks about.

    Raises JobError (INCOMPATIBLE_STATE) if a declared serializer cannot read a stored format;
    nothing is registered then.
    """
    declared = {
        info.format_name: info
        for descriptor in descriptors
        for root in (descriptor.value_type, descriptor.accumulator_type)
        if root is not None
        for info in _custom_types(root)
    }
    while True:
        try:
            return begin(registrations)
        except JobError as refusal:
            forms = unjudged_formats(refusal)
            if not forms or any(form.name not in declared for form in forms):
                raise
            for form in forms:
                stored = TypeInfo(Kind.CUSTOM, serializer_format=form)
                readable_as(stored, declared[form.name], f"{where}: {refusal.message}; a value")
            for registration in registrations:
                registration.readable_serializers.extend(form.to_proto() for form in forms)


def _custom_types(info: TypeInfo) -> Iterator[TypeInfo]:
    if info.kind == Kind.CUSTOM:
        yield info
    for field in info.fields:
        yield from _custom_types(field.type)
    if info.element is not None:
        yield from _custom_types(info.element)
