"""A changed serializer is registered only if the job's program says that it reads the old bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from queryable_state.server.coordinator.model.registrations import OperatorClaim, RegistrationTable
from queryable_state.server.coordinator.model.state_evolution import check_evolution
from queryable_state.v1.registration_pb2 import SchemaVersion, StateKind, StateRegistration
from queryable_state.wire.errors import JobError, QueryableStateError, Reason
from queryable_state.wire.schema.serializer_changes import unjudged_formats
from queryable_state.wire.schema.type_model import Kind, SerializerFormat, TypeInfo
from queryable_state.wire.schema.types import Types

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

OPERATOR = OperatorClaim(
    job_id=b"j" * 16, job_name="job", uid="op", name="sums", depth=0, max_parallelism=128
)
FIRST, SECOND, THIRD = (SerializerFormat("app.Text", 1, bytes((n,))) for n in range(3))

PLACES: dict[str, Callable[[Any], TypeInfo]] = {
    "alone": lambda info: info,
    "field": lambda info: Types.ROW_NAMED(["a", "b"], [int, info]),
    "list element": Types.LIST,
    "map value": lambda info: Types.MAP(str, info),
    "tuple field": lambda info: Types.TUPLE([int, info]),
    "row in a list": lambda info: Types.LIST(Types.ROW_NAMED(["a"], [info])),
}


def custom(form: SerializerFormat) -> TypeInfo:
    return TypeInfo(Kind.CUSTOM, serializer_format=form)


def asked(
    info: TypeInfo, readable: Sequence[SerializerFormat] = (), *, accumulator: bool = False
) -> StateRegistration:
    versions = [SchemaVersion(version=1, type=info.to_proto())]
    return StateRegistration(
        state_name="texts",
        kind=StateKind.AGGREGATING if accumulator else StateKind.VALUE,
        key_type=Types.STRING().to_proto(),
        value_types=() if accumulator else versions,
        accumulator_types=versions if accumulator else (),
        readable_serializers=[form.to_proto() for form in readable],
    )


@pytest.mark.parametrize("accumulator", [False, True], ids=["value", "accumulator"])
@pytest.mark.parametrize("place", PLACES)
def test_a_format_is_refused_until_it_is_declared_readable(place: str, accumulator: bool) -> None:
    table, of = RegistrationTable(first_state_id=1), PLACES[place]
    table.register(OPERATOR, [asked(of(custom(FIRST)), accumulator=accumulator)])
    changed = of(custom(SECOND))
    with pytest.raises(JobError) as refusal:
        table.register(OPERATOR, [asked(changed, accumulator=accumulator)])
    assert refusal.value.reason == Reason.INCOMPATIBLE_STATE
    assert "app.Text" in str(refusal.value)
    # The formats cross the wire within the error.
    received = QueryableStateError.from_proto(refusal.value.to_proto())
    assert isinstance(received, JobError)
    assert unjudged_formats(received) == ("texts", [FIRST])

    (made,) = table.register(OPERATOR, [asked(changed, [FIRST], accumulator=accumulator)])
    assert not made.readable_serializers
    versions = made.accumulator_types if accumulator else made.value_types
    assert [TypeInfo.from_proto(v.type) for v in versions] == [of(custom(FIRST)), changed]

    # It was judged once: later tasks of the program need not declare it.
    table.register(OPERATOR, [asked(changed, accumulator=accumulator)])

    # Every earlier format must be readable, not only the newest.
    with pytest.raises(JobError) as refusal:
        table.register(OPERATOR, [asked(of(custom(THIRD)), [SECOND], accumulator=accumulator)])
    assert unjudged_formats(refusal.value) == ("texts", [FIRST])


def test_the_same_format_and_an_added_field_need_no_declaration() -> None:
    table = RegistrationTable(first_state_id=1)
    table.register(OPERATOR, [asked(Types.ROW_NAMED(["a"], [custom(FIRST)]))])
    added = Types.ROW_NAMED(["a", "b"], [custom(FIRST), custom(SECOND)])
    (made,) = table.register(OPERATOR, [asked(added)])
    assert len(made.value_types) == 2


def test_another_type_cannot_replace_a_serializer() -> None:
    table = RegistrationTable(first_state_id=1)
    table.register(OPERATOR, [asked(custom(FIRST))])
    with pytest.raises(JobError, match=r"was custom<app\.Text> and is bigint") as refusal:
        table.register(OPERATOR, [asked(Types.LONG(), [FIRST])])
    assert unjudged_formats(refusal.value) is None


def test_the_driver_leaves_serializers_to_the_tasks() -> None:
    """It has declarations without serializers, and refuses only what no serializer can cure."""
    check_evolution(asked(custom(FIRST)), asked(custom(SECOND)), "state")
    with pytest.raises(JobError, match="is bigint"):
        check_evolution(asked(custom(FIRST)), asked(Types.LONG()), "state")
