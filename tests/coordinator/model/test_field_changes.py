"""Renamed and dropped fields: what stored values read as, and which changes are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from queryable_state.server.coordinator.model.registrations import OperatorClaim, RegistrationTable
from queryable_state.streaming.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from queryable_state.streaming.functions import AggregateFunction, AggregatingStateDescriptor
from queryable_state.wire.errors import InvalidRequestError, JobError, Reason
from queryable_state.wire.schema.types import TypeInfo, Types
from queryable_state.wire.values.value_codec import ValueCodec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from queryable_state.v1 import registration_pb2

LONG, TEXT = Types.LONG(), Types.STRING()
OPERATOR = OperatorClaim(
    job_id=b"j" * 16, job_name="job", uid="op", name="totals", depth=0, max_parallelism=128
)


def row(**fields: TypeInfo) -> TypeInfo:
    return Types.ROW_NAMED(list(fields), list(fields.values()))


class Total(AggregateFunction[int, Any, int]):
    """A sum in a row of one field."""

    def create_accumulator(self) -> Any:
        return (0,)

    def add(self, value: int, accumulator: Any) -> Any:
        return (accumulator[0] + value,)

    def get_result(self, accumulator: Any) -> int:
        return int(accumulator[0])

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return (acc_a[0] + acc_b[0],)


class Stored:
    """One state over several starts of its job: values are kept as the bytes of their time."""

    def __init__(self) -> None:
        self._table = RegistrationTable()
        self._codec: ValueCodec | None = None
        self._values: list[bytes] = []

    def start(
        self,
        value_type: TypeInfo,
        *,
        renamed: Mapping[str, str] | None = None,
        dropped: Iterable[str] = (),
    ) -> None:
        descriptor = ValueStateDescriptor("total", value_type)
        descriptor.set_renamed_fields(renamed or {})
        descriptor.set_dropped_fields(dropped)
        self.start_with(descriptor)

    def start_with(self, descriptor: StateDescriptor) -> None:
        asked = descriptor.to_registration(
            job_id=b"", operator_uid="op", key_type=TEXT, max_parallelism=128
        )
        (made,) = self._table.register(OPERATOR, [asked])
        assert not made.renamed_fields
        assert not made.dropped_fields
        types = made.accumulator_types or made.value_types
        versions = {v.version: TypeInfo.from_proto(v.type) for v in types}
        self._codec = ValueCodec(versions, max(versions))

    def write(self, value: Any) -> None:
        assert self._codec is not None
        self._values.append(self._codec.encode(value))

    def read(self) -> list[Any]:
        assert self._codec is not None
        return [self._codec.decode(data) for data in self._values]


@pytest.fixture
def stored() -> Stored:
    return Stored()


def test_a_field_that_goes_while_another_comes_is_refused_naming_both_and_the_cures(
    stored: Stored,
) -> None:
    stored.start(row(cnt=LONG, last=TEXT))
    with pytest.raises(JobError) as refusal:
        stored.start(row(n=LONG, last=TEXT))
    assert refusal.value.reason == Reason.INCOMPATIBLE_STATE
    for part in (
        "'total' of operator 'op' (totals)",
        "'cnt' (bigint)",
        "'n' (bigint)",
        "set_renamed_fields({'n': 'cnt'})",
        "set_dropped_fields(['cnt'])",
    ):
        assert part in str(refusal.value)


def test_values_of_every_schema_version_are_read_under_the_new_name(stored: Stored) -> None:
    stored.start(row(cnt=Types.INT()))
    stored.write((1,))
    stored.start(row(cnt=LONG, last=TEXT))
    stored.write((2, "b"))
    stored.start(row(n=LONG, last=TEXT), renamed={"n": "cnt"})
    stored.write((3, "c"))
    assert [v._asdict() for v in stored.read()] == [
        {"n": 1, "last": None},
        {"n": 2, "last": "b"},
        {"n": 3, "last": "c"},
    ]
    # The program keeps saying it, and says no more some day.
    stored.start(row(n=LONG, last=TEXT), renamed={"n": "cnt"})
    stored.start(row(n=LONG, last=TEXT, more=TEXT), renamed={"n": "cnt"})
    stored.start(row(n=LONG, last=TEXT, more=TEXT, cnt=LONG))
    stored.write((4, "d", "m", 44))
    assert [(v.n, v.cnt) for v in stored.read()] == [(1, None), (2, None), (3, None), (4, 44)]
    # And back, as an older program has it.
    stored.start(row(cnt2=LONG, last=TEXT, more=TEXT, cnt=LONG), renamed={"cnt2": "n"})
    assert [v.cnt2 for v in stored.read()] == [1, 2, 3, 4]


def test_a_renamed_field_may_grow_and_others_may_come_and_go_with_it(stored: Stored) -> None:
    stored.start(row(cnt=Types.INT(), old=TEXT))
    stored.write((1, "x"))
    stored.start(row(n=LONG, new=TEXT), renamed={"n": "cnt"}, dropped=["old"])
    assert [v._asdict() for v in stored.read()] == [{"n": 1, "new": None}]


def test_dropping_by_name_starts_the_new_field_empty(stored: Stored) -> None:
    stored.start(row(cnt=LONG))
    stored.write((1,))
    with pytest.raises(JobError):
        stored.start(row(n=LONG), dropped=["other"])
    stored.start(row(n=LONG), dropped=["cnt"])
    assert [v._asdict() for v in stored.read()] == [{"n": None}]


def test_a_field_dropped_in_one_start_and_one_added_in_the_next_are_no_rename(
    stored: Stored,
) -> None:
    stored.start(row(a=LONG, b=LONG))
    stored.start(row(a=LONG))
    stored.start(row(a=LONG, c=LONG))


def test_the_new_name_may_be_one_that_an_older_version_had(stored: Stored) -> None:
    stored.start(row(n=TEXT, cnt=LONG))
    stored.write(("old", 1))
    stored.start(row(cnt=LONG))
    stored.write((2,))
    stored.start(row(n=LONG), renamed={"n": "cnt"})
    assert [v._asdict() for v in stored.read()] == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize(
    ("wrap", "path", "put", "get"),
    [
        (lambda t: row(inner=t), "inner.n", lambda v: (v,), lambda v: v.inner),
        (Types.LIST, "[].n", lambda v: [v, None], lambda v: v[0]),
        (lambda t: row(all=Types.LIST(t)), "all[].n", lambda v: ([v],), lambda v: v.all[0]),
        (lambda t: Types.MAP(TEXT, t), "[].n", lambda v: {"k": v}, lambda v: v["k"]),
        (lambda t: Types.TUPLE([LONG, t]), "[1].n", lambda v: (7, v), lambda v: v[1]),
        (
            lambda t: row(deep=Types.MAP(TEXT, Types.LIST(row(er=t)))),
            "deep[][].er.n",
            lambda v: ({"k": [(v,)]},),
            lambda v: v.deep["k"][0].er,
        ),
    ],
)
def test_nested_rows_are_renamed_by_path(
    stored: Stored, wrap: Any, path: str, put: Any, get: Any
) -> None:
    stored.start(wrap(row(cnt=LONG, last=TEXT)))
    stored.write(put((5, "x")))
    after = wrap(row(n=LONG, last=TEXT))
    with pytest.raises(JobError, match=r"set_renamed_fields"):
        stored.start(after)
    stored.start(after, renamed={path: "cnt"})
    assert get(stored.read()[0])._asdict() == {"n": 5, "last": "x"}
    dropped = f"{path.removesuffix('n')}last"
    stored.start(wrap(row(n=LONG, note=TEXT)), dropped=[dropped])
    assert get(stored.read()[0])._asdict() == {"n": 5, "note": None}


def test_a_row_and_a_field_in_it_are_renamed_in_one_start(stored: Stored) -> None:
    stored.start(row(addr=row(str=TEXT)))
    stored.write((("main",),))
    renamed = {"address": "addr", "address.street": "str"}
    stored.start(row(address=row(street=TEXT)), renamed=renamed)
    assert stored.read()[0].address.street == "main"


def test_a_field_that_moves_to_another_row_is_refused(stored: Stored) -> None:
    stored.start(row(inner=row(a=LONG, cnt=LONG)))
    with pytest.raises(JobError, match=r"'inner.cnt'.*'cnt'"):
        stored.start(row(inner=row(a=LONG), cnt=LONG))


def test_lists_maps_and_accumulators_follow_the_same_rule() -> None:
    before, after = row(cnt=LONG), row(n=LONG)

    for describe in (
        lambda of: ListStateDescriptor("total", of),
        lambda of: MapStateDescriptor("total", TEXT, of),
        lambda of: AggregatingStateDescriptor("total", Total(), of),
    ):
        stored = Stored()
        stored.start_with(describe(before))
        stored.write((1,))
        with pytest.raises(JobError, match="set_renamed_fields"):
            stored.start_with(describe(after))
        renamed = describe(after)
        renamed.set_renamed_fields({"n": "cnt"})
        stored.start_with(renamed)
        assert stored.read()[0].n == 1


@pytest.mark.parametrize(
    ("renamed", "text"),
    [
        ({"m": "cnt"}, r"'m' is not one of 'a', 'n'"),
        ({"n": "a"}, "which the same row still has"),
        ({"n": ""}, "is empty"),
    ],
)
def test_a_rename_that_cannot_be_meant_is_refused_at_its_descriptor(
    renamed: dict[str, str], text: str
) -> None:
    descriptor = ValueStateDescriptor("total", row(n=LONG, a=LONG))
    with pytest.raises(InvalidRequestError, match=text):
        descriptor.set_renamed_fields(renamed)


def test_a_drop_that_cannot_be_meant_is_refused_at_its_descriptor() -> None:
    descriptor = ValueStateDescriptor("total", row(n=LONG))
    with pytest.raises(InvalidRequestError, match="'n' is declared as dropped"):
        descriptor.set_dropped_fields(["n"])
    with pytest.raises(InvalidRequestError, match="a list of paths, not 'cnt'"):
        descriptor.set_dropped_fields("cnt")


def test_stored_states_are_answered_as_they_are_declared_before_a_batch_registers_them() -> None:
    def asked(field: str) -> registration_pb2.StateRegistration:
        descriptor = ValueStateDescriptor("total", row(**{field: LONG}))
        descriptor.set_queryable(f"by {field}")
        descriptor.set_renamed_fields({"n": "cnt"} if field == "n" else {})
        return descriptor.to_registration(
            job_id=b"", operator_uid="op", key_type=TEXT, max_parallelism=128
        )

    job = OPERATOR.job_id
    before, table = RegistrationTable(), RegistrationTable()
    before.register(OPERATOR, [asked("cnt")])
    table.adopt(job, before.of_job(job))
    table.declare(job, [asked("n")])
    table.serve(job, {"op"})
    (served,) = table.queryable(job).values()
    assert served.queryable_name == "by n"
    names = [[field.name for field in version.type.fields] for version in served.value_types]
    assert names == [["n"], ["n"]]
    (registered,) = table.register(OPERATOR, [asked("n")])
    assert registered.value_types == served.value_types
    assert registered.state_id == served.state_id
