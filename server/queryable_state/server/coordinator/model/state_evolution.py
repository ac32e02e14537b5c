"""Evolution of a state's types: the changes that stored values can follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.coordinator.model.field_changes import FieldChanges
from queryable_state.v1 import registration_pb2
from queryable_state.wire.errors import InvalidRequestError, JobError
from queryable_state.wire.schema.serializer_changes import check_serializers
from queryable_state.wire.schema.type_model import TypeInfo
from queryable_state.wire.values.evolution import adapter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

    from queryable_state.v1 import types_pb2

    _SchemaVersions = RepeatedCompositeFieldContainer[registration_pb2.SchemaVersion]


def check_unchanged(
    known: registration_pb2.StateRegistration,
    asked: registration_pb2.StateRegistration,
    where: str,
) -> None:
    """Raises INCOMPATIBLE_STATE if a property differs that stored bytes depend on."""
    kind = registration_pb2.StateKind
    differences = [
        ("kind", kind.Name(known.kind), kind.Name(asked.kind)),
        ("key type", _text(known, "key_type"), _text(asked, "key_type")),
        ("namespace type", _text(known, "namespace_type"), _text(asked, "namespace_type")),
        ("map key type", _text(known, "map_key_type"), _text(asked, "map_key_type")),
        ("max parallelism", str(known.max_parallelism), str(asked.max_parallelism)),
    ]
    for what, before, now in differences:
        if before != now:
            raise JobError(
                f"{where}: its {what} was {before} and is {now}; stored state cannot follow: "
                "change it back, or give the state another name"
            )


def check_timer_states(states: Sequence[registration_pb2.StateRegistration], operator: str) -> None:
    """Raises InvalidRequestError unless an operator has at most one TIMER state, without values."""
    timers = [state for state in states if state.kind == registration_pb2.TIMER]
    if len(timers) > 1:
        raise InvalidRequestError(
            f"operator {operator} registers {len(timers)} states of kind TIMER: all timers of an "
            "operator are in one state"
        )
    for state in timers:
        if state.value_types or state.HasField("ttl"):
            raise InvalidRequestError(
                f"state {state.state_name!r} of operator {operator} is of kind TIMER: it has "
                "neither a value type nor a TTL"
            )


def check_evolution(
    known: registration_pb2.StateRegistration,
    asked: registration_pb2.StateRegistration,
    where: str,
) -> None:
    """Raises JobError if stored values cannot be read by the new descriptor; changes nothing.

    Changed serializers are not checked: the first task that opens the state judges them.
    """
    merged = registration_pb2.StateRegistration()
    merged.CopyFrom(asked)
    merged.max_parallelism = known.max_parallelism
    _merge(known, merged, where, judged=False)


def evolve(
    known: registration_pb2.StateRegistration | None,
    asked: registration_pb2.StateRegistration,
    where: str,
) -> None:
    """Extends a registration by all earlier schema versions of the state.

    The requested type becomes the last version. Applies and clears the request's renamed and
    dropped fields. Raises INCOMPATIBLE_STATE if stored values cannot be read as the last version,
    or if a serializer changed that the request does not declare as readable.
    """
    _merge(known, asked, where, judged=True)
    del asked.renamed_fields[:], asked.dropped_fields[:], asked.readable_serializers[:]


def _merge(
    known: registration_pb2.StateRegistration | None,
    asked: registration_pb2.StateRegistration,
    where: str,
    *,
    judged: bool,
) -> None:
    """Extends a registration by earlier versions; `judged`: changed serializers are checked."""
    changes = FieldChanges.of(asked)
    if known:
        check_unchanged(known, asked, where)
    _evolve(known.value_types if known else (), asked.value_types, changes, where)
    accumulators = known.accumulator_types if known else ()
    _evolve(accumulators, asked.accumulator_types, changes, f"accumulator of {where}")
    if judged:
        values = known.value_types if known else ()
        for before, now in ((values, asked.value_types), (accumulators, asked.accumulator_types)):
            types = [TypeInfo.from_proto(version.type) for version in now]
            # The types of a version that is registered already were judged then.
            if len(now) > len(before):
                check_serializers(types[:-1], types[-1], asked, where)


def _evolve(
    known: Sequence[registration_pb2.SchemaVersion],
    asked: _SchemaVersions,
    changes: FieldChanges,
    where: str,
) -> None:
    if not asked:
        if known:
            raise JobError(f"{where} has a value type and is registered without one")
        return
    new = TypeInfo.from_proto(asked[-1].type)
    versions = [(version.version, TypeInfo.from_proto(version.type)) for version in known]
    if not versions or versions[-1][1] != new:
        renamed = changes.apply([info for _, info in versions], new, where)
        versions = [(number, info) for (number, _), info in zip(versions, renamed, strict=True)]
        for _, info in versions:
            # The type errors of the codec name both types and what may change.
            adapter(info, new, where)
        versions.append((versions[-1][0] + 1 if versions else 1, new))
    del asked[:]
    asked.extend(
        registration_pb2.SchemaVersion(version=number, type=info.to_proto())
        for number, info in versions
    )


def _text(state: registration_pb2.StateRegistration, field: str) -> str:
    if not state.HasField(field):  # type: ignore[arg-type]  # one of its own TypeInfo fields
        return "none"
    proto: types_pb2.TypeInfo = getattr(state, field)
    return TypeInfo.from_proto(proto).simple_string()
