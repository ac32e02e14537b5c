"""State ids, schema versions and queryable names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryable_state.server.coordinator import NameClaim, check_queryable_names
from queryable_state.server.coordinator.model.registrations import OperatorClaim, RegistrationTable
from queryable_state.v1 import registration_pb2
from queryable_state.wire.errors import InvalidRequestError, JobError, Reason
from queryable_state.wire.schema.types import TypeInfo, Types

JOB, OTHER_JOB = b"j" * 16, b"k" * 16


def operator(uid: str = "op", name: str = "", job: bytes = JOB) -> OperatorClaim:
    return OperatorClaim(
        job_id=job, job_name="job", uid=uid, name=name, depth=0, max_parallelism=128
    )


def state(
    name: str = "last",
    queryable: str = "",
    value: TypeInfo | None = None,
    key: TypeInfo | None = None,
    kind: registration_pb2.StateKind.ValueType = registration_pb2.VALUE,
) -> registration_pb2.StateRegistration:
    version = registration_pb2.SchemaVersion(version=1, type=(value or Types.LONG()).to_proto())
    return registration_pb2.StateRegistration(
        state_name=name,
        queryable_name=queryable,
        kind=kind,
        key_type=(key or Types.STRING()).to_proto(),
        value_types=[version],
    )


@pytest.fixture
def table() -> RegistrationTable:
    return RegistrationTable(first_state_id=7)


def register(
    table: RegistrationTable, asked: registration_pb2.StateRegistration, uid: str = "op"
) -> registration_pb2.StateRegistration:
    (registered,) = table.register(operator(uid), [asked])
    return registered


def test_a_state_is_registered_with_all_that_is_needed_to_read_it(
    table: RegistrationTable,
) -> None:
    (made,) = table.register(operator("op", "alerts"), [state("last", "lastTemperature")])
    assert (made.state_id, made.job_id, made.job_name) == (7, JOB, "job")
    assert (made.operator_uid, made.operator_name, made.max_parallelism) == ("op", "alerts", 128)
    assert made.incarnation == 1


def test_the_same_registration_again_has_the_same_id(table: RegistrationTable) -> None:
    assert register(table, state()) == register(table, state())


def test_ids_of_two_drivers_differ() -> None:
    first, second = (register(RegistrationTable(), state()).state_id for _ in range(2))
    assert first != second


def test_a_field_added_makes_a_new_schema_version_beside_the_old(table: RegistrationTable) -> None:
    old = Types.ROW_NAMED(["a"], [Types.LONG()])
    new = Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.STRING()])
    before, after = (register(table, state(value=value)) for value in (old, new))
    assert after.state_id == before.state_id
    assert [v.version for v in after.value_types] == [1, 2]
    assert [TypeInfo.from_proto(v.type) for v in after.value_types] == [old, new]


def test_a_type_taken_back_is_a_version_of_its_own_and_the_last(table: RegistrationTable) -> None:
    old = Types.ROW_NAMED(["a"], [Types.LONG()])
    new = Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.STRING()])
    for value in (old, new):
        register(table, state(value=value))
    again = register(table, state(value=old))
    assert [v.version for v in again.value_types] == [1, 2, 3]
    assert TypeInfo.from_proto(again.value_types[-1].type) == old


def test_another_value_type_is_refused_and_both_are_named(table: RegistrationTable) -> None:
    before = register(table, state(value=Types.LONG()))
    with pytest.raises(JobError) as refusal:
        register(table, state(value=Types.STRING()))
    assert refusal.value.reason == Reason.INCOMPATIBLE_STATE
    assert "bigint" in str(refusal.value)
    assert "string" in str(refusal.value)
    assert "'last'" in str(refusal.value)
    assert register(table, state(value=Types.LONG())) == before


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        (state(key=Types.LONG()), "key type was string and is bigint"),
        (state(kind=registration_pb2.LIST), "kind was VALUE and is LIST"),
    ],
)
def test_another_key_type_or_kind_is_refused(
    table: RegistrationTable, changed: registration_pb2.StateRegistration, named: str
) -> None:
    register(table, state())
    with pytest.raises(JobError, match=named):
        register(table, changed)


def test_two_operators_cannot_claim_one_queryable_name(table: RegistrationTable) -> None:
    table.register(operator("first", "max"), [state(queryable="t")])
    with pytest.raises(JobError) as refusal:
        table.register(operator("second", "last"), [state(queryable="t")])
    assert refusal.value.reason == Reason.DUPLICATE_NAME
    assert "'first' (max)" in str(refusal.value)
    assert "'second' (last)" in str(refusal.value)


def test_two_states_of_one_operator_cannot_claim_one_queryable_name(
    table: RegistrationTable,
) -> None:
    with pytest.raises(JobError) as refusal:
        table.register(operator(), [state("a", "t"), state("b", "t")])
    assert refusal.value.reason == Reason.DUPLICATE_NAME
    assert not table.queryable(JOB)


def test_a_state_name_twice_is_refused(table: RegistrationTable) -> None:
    with pytest.raises(JobError, match="two states named 'last'"):
        table.register(operator(), [state(), state()])


def test_two_jobs_may_use_one_name(table: RegistrationTable) -> None:
    table.register(operator(), [state(queryable="t")])
    table.register(operator(job=OTHER_JOB), [state(queryable="t")])
    assert sorted(table.jobs_with("t")) == [JOB, OTHER_JOB]


def test_a_queryable_name_may_move_to_another_one(table: RegistrationTable) -> None:
    register(table, state(queryable="old"))
    register(table, state(queryable="new"))
    assert list(table.queryable(JOB)) == ["new"]
    register(table, state(queryable="old"), uid="another")


def test_a_state_made_anew_after_a_drop_has_a_new_id_and_incarnation(
    table: RegistrationTable,
) -> None:
    before = register(table, state())
    table.drop(JOB)
    after = register(table, state(value=Types.STRING()))
    assert after.state_id > before.state_id
    assert after.incarnation == before.incarnation + 1


def test_a_state_without_a_name_is_refused(table: RegistrationTable) -> None:
    with pytest.raises(InvalidRequestError):
        register(table, state(""))


def test_names_can_be_checked_at_submission() -> None:
    claims = [
        NameClaim(queryable_name="t", operator="'a'", state_name="x"),
        NameClaim(queryable_name="u", operator="'a'", state_name="y"),
    ]
    check_queryable_names(claims)
    with pytest.raises(JobError, match="operator 'a' and by state 'z' of operator 'b'"):
        check_queryable_names(
            [*claims, NameClaim(queryable_name="t", operator="'b'", state_name="z")]
        )


NAMES = st.sampled_from(["a", "b", "c"])
CLAIMS = st.tuples(
    st.sampled_from([JOB, OTHER_JOB]), NAMES, NAMES, st.sampled_from(["", "t", "u"]), st.booleans()
)


@given(st.lists(CLAIMS, max_size=30))
def test_ids_are_never_shared_and_names_never_double(
    claims: list[tuple[bytes, str, str, str, bool]],
) -> None:
    table = RegistrationTable()
    ids: dict[int, tuple[bytes, str, str, int]] = {}
    for job, uid, name, queryable, drop in claims:
        if drop:
            table.drop(job)
        try:
            (made,) = table.register(operator(uid, job=job), [state(name, queryable)])
        except JobError:
            continue
        identity = (job, uid, name, made.incarnation)
        assert ids.setdefault(made.state_id, identity) == identity
        for known_job in (JOB, OTHER_JOB):
            found = table.queryable(known_job)
            assert all(registered.queryable_name == key for key, registered in found.items())
            assert table.jobs_with("t").count(known_job) == ("t" in found)


_UIDS, _NAMES, _DEPTHS = ("a", "b"), ("x", "y"), (0, 1, 5)
_STEPS = st.lists(
    st.tuples(
        st.sampled_from(("register", "adopt", "declare", "serve", "drop")),
        st.sampled_from((JOB, OTHER_JOB)),
        st.sampled_from(_UIDS),
        st.sampled_from(_NAMES),
        st.sampled_from(_DEPTHS),
    ),
    max_size=30,
)


@given(_STEPS)
def test_the_deepest_operator_is_that_of_the_states_registered_by_an_operator(
    steps: list[tuple[str, bytes, str, str, int]],
) -> None:
    table = RegistrationTable(first_state_id=100)
    depths: dict[tuple[bytes, str, str], int] = {}
    claimed: set[tuple[bytes, str, str]] = set()
    for step, job, uid, name, depth in steps:
        identity, stored = (job, uid, name), state(name)
        stored.job_id, stored.operator_uid, stored.operator_depth = job, uid, depth
        stored.state_id = 1 + 4 * (job == JOB) + 2 * _UIDS.index(uid) + _NAMES.index(name)
        if step == "register":
            claim = OperatorClaim(
                job_id=job, job_name="job", uid=uid, name="", depth=depth, max_parallelism=0
            )
            table.register(claim, [state(name)])
            claimed.add(identity)
            depths[identity] = depth
        elif step == "adopt":
            table.adopt(job, [stored])
            depths[identity] = depth
        elif step == "declare":
            table.declare(job, [stored])
            if identity in depths:
                depths[identity] = depth
        elif step == "serve":
            table.serve(job, {uid})
            claimed -= {known for known in claimed if known[0] == job and known[1] != uid}
        else:
            table.drop(job)
            claimed -= {known for known in claimed if known[0] == job}
            depths = {known: depth for known, depth in depths.items() if known[0] != job}
        for each in (JOB, OTHER_JOB):
            deepest = max((depths[known] for known in claimed if known[0] == each), default=0)
            assert table.deepest(each) == deepest
