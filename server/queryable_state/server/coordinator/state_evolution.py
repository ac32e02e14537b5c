"""How far a state may change and still read what is stored of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.v1 import registration_pb2
from queryable_state.wire.errors import JobError
from queryable_state.wire.types import TypeInfo
from queryable_state.wire.value_evolution import adapter

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
    """Raises INCOMPATIBLE_STATE where something differs that stored bytes depend on."""
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


def evolve(
    known: Sequence[registration_pb2.SchemaVersion], asked: _SchemaVersions, where: str
) -> None:
    """Replaces the asked versions by all there ever were, the type asked for as the last."""
    if not asked:
        if known:
            raise JobError(f"{where} has a value type and is registered without one")
        return
    wanted = asked[-1].type
    versions = [_copy_version(version) for version in known]
    if not versions or versions[-1].type != wanted:
        new = TypeInfo.from_proto(wanted)
        for version in versions:
            # The type errors of the codec name both types and what may change.
            adapter(TypeInfo.from_proto(version.type), new, where)
        number = versions[-1].version + 1 if versions else 1
        versions.append(registration_pb2.SchemaVersion(version=number, type=wanted))
    del asked[:]
    asked.extend(versions)


def _text(state: registration_pb2.StateRegistration, field: str) -> str:
    if not state.HasField(field):  # type: ignore[arg-type]  # one of its own TypeInfo fields
        return "none"
    proto: types_pb2.TypeInfo = getattr(state, field)
    return TypeInfo.from_proto(proto).simple_string()


def _copy_version(version: registration_pb2.SchemaVersion) -> registration_pb2.SchemaVersion:
    copy = registration_pb2.SchemaVersion()
    copy.CopyFrom(version)
    return copy
