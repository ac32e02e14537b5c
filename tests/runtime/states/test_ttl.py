"""Values with a TTL, as functions see them: expiry, renewal, visibility, changes on restart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.runtime.states.interpreter import fetches

from queryable_state.streaming import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)
from queryable_state.streaming.testing import KeyedOperatorHarness
from queryable_state.streaming.testing.in_memory_state import InMemoryStateBackend
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.streaming import RuntimeContext

ON_READ = StateTtlConfig.new_builder(Time.seconds(10)).update_ttl_on_read_and_write().build()
ON_WRITE = StateTtlConfig.new_builder(Time.seconds(10)).build()
RETURNING = StateTtlConfig.new_builder(Time.seconds(10)).return_expired_if_not_cleaned_up().build()
RETURNING_ON_READ = (
    StateTtlConfig.new_builder(Time.seconds(10))
    .return_expired_if_not_cleaned_up()
    .update_ttl_on_read_and_write()
    .build()
)


class Session(KeyedProcessFunction):
    """Writes each number, or reads for a null, in the state of one kind."""

    def __init__(self, kind: str, ttl: StateTtlConfig | None) -> None:
        self.kind = kind
        self.ttl = ttl

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor: Any
        match self.kind:
            case "value":
                descriptor = ValueStateDescriptor("state", Types.LONG())
                get = runtime_context.get_state
            case "list":
                descriptor = ListStateDescriptor("state", Types.LONG())
                get = runtime_context.get_list_state  # type: ignore[assignment]
            case _:
                descriptor = MapStateDescriptor("state", Types.LONG(), Types.LONG())
                get = runtime_context.get_map_state  # type: ignore[assignment]
        if self.ttl is not None:
            descriptor.enable_time_to_live(self.ttl)
        descriptor.set_queryable("state")
        self.state: Any = get(descriptor)

    def process_element(self, row: Any, context: Any) -> Iterator[str]:
        match self.kind:
            case "value":
                result = self.state.update(row.number) if row.number else self.state.value()
            case "list":
                result = self.state.add(row.number) if row.number else self.state.get()
            case _:
                put = row.number and self.state.put(row.number, row.number * 10)
                result = put if row.number else self.state.items()
        if not row.number:
            yield repr(result)


class Job:
    """A harness with a clock, restarted with other TTLs on the same state."""

    def __init__(self, kind: str, ttl: StateTtlConfig | None) -> None:
        self.backend = InMemoryStateBackend()
        self.kind = kind
        self.start(ttl)

    def start(self, ttl: StateTtlConfig | None, *, batch_id: int = 0) -> None:
        self.harness = KeyedOperatorHarness(
            Session(self.kind, ttl),
            "key STRING, number INT",
            key_by="key",
            output_type=Types.STRING(),
            parallelism=1,
            owner=self.backend,
        )
        self.harness.batch_id = batch_id

    def restart(self, ttl: StateTtlConfig | None) -> None:
        self.start(ttl, batch_id=self.harness.batch_id)

    def write(self, *numbers: int) -> None:
        self.harness.process([("k", number) for number in numbers])

    def read(self, *, after_s: float = 0) -> str:
        self.backend.timestamp_ms += int(after_s * 1000)
        [output] = self.harness.process([("k", None)])
        return str(output)

    def records_written(self) -> int:
        """Records of the newest batch's changes."""
        place = ("operator", 0, self.harness.batch_id - 1)
        return self.backend.seals[place][-1].record_count


def test_a_value_expires_exactly_at_its_time() -> None:
    job = Job("value", ON_WRITE)
    job.write(7)
    assert job.read(after_s=9.999) == "7"
    assert job.read(after_s=0.001) == "None"


def test_a_write_begins_a_new_life_and_a_read_does_not() -> None:
    job = Job("value", ON_WRITE)
    job.write(7)
    job.backend.timestamp_ms += 6_000
    job.write(8)
    assert job.read(after_s=6) == "8"
    assert job.records_written() == 0
    assert job.read(after_s=4) == "None"


@pytest.mark.parametrize(
    ("kind", "seen", "nothing"),
    [("value", "7", "None"), ("list", "[7]", "[]"), ("map", "[(7, 70)]", "[]")],
)
def test_a_read_begins_a_new_life_where_reads_are_updates(
    kind: str, seen: str, nothing: str
) -> None:
    job = Job(kind, ON_READ)
    job.write(7)
    for _ in range(3):
        assert job.read(after_s=6) == seen
        assert job.records_written() == 1
    assert job.read(after_s=10) == nothing


def test_a_read_of_an_expired_value_changes_nothing_where_clean_up_runs() -> None:
    job = Job("value", ON_READ)
    job.write(7)
    assert job.read(after_s=10) == "None"
    assert job.records_written() == 0


@pytest.mark.parametrize(("kind", "nothing"), [("value", "None"), ("list", "[]"), ("map", "[]")])
def test_a_read_removes_an_expired_value_where_no_clean_up_runs(kind: str, nothing: str) -> None:
    builder = StateTtlConfig.new_builder(Time.seconds(10)).disable_cleanup_in_background()
    job = Job(kind, builder.build())
    job.write(7)
    assert job.read(after_s=10) == nothing
    assert job.records_written() == 1
    assert not job.harness.state("state", "k")


@pytest.mark.parametrize(
    ("kind", "seen", "nothing"),
    [("value", "7", "None"), ("list", "[7]", "[]"), ("map", "[(7, 70)]", "[]")],
)
def test_an_expired_value_is_returned_once_where_it_is_visible(
    kind: str, seen: str, nothing: str
) -> None:
    job = Job(kind, RETURNING)
    job.write(7)
    assert job.read(after_s=15) == seen
    assert job.read() == nothing
    assert not job.harness.state("state", "k")


def test_a_visible_expired_value_is_gone_after_one_more_ttl() -> None:
    job = Job("value", RETURNING)
    job.write(7)
    assert job.read(after_s=20) == "None"


def test_elements_of_a_list_expire_each_with_its_batch() -> None:
    job = Job("list", ON_WRITE)
    job.write(1, 2)
    job.backend.timestamp_ms += 6_000
    job.write(3)
    assert job.read() == "[1, 2, 3]"
    assert job.read(after_s=4) == "[3]"
    assert job.read(after_s=6) == "[]"


def test_visible_expired_elements_stay_until_nothing_else_is_left() -> None:
    """As in Flink, where such a read costs no write."""
    job = Job("list", RETURNING)
    job.write(1)
    job.backend.timestamp_ms += 6_000
    job.write(2)
    assert job.read(after_s=6) == "[1, 2]"
    assert job.read() == "[1, 2]"
    assert job.read(after_s=5) == "[1, 2]"
    assert job.read() == "[]"


def test_a_read_that_renews_a_list_drops_its_expired_elements() -> None:
    job = Job("list", RETURNING_ON_READ)
    job.write(1)
    job.backend.timestamp_ms += 6_000
    job.write(2)
    assert job.read(after_s=6) == "[1, 2]"
    assert job.read(after_s=1) == "[2]"
    assert job.read(after_s=9) == "[2]"


def test_entries_of_a_map_expire_each_on_its_own() -> None:
    job = Job("map", ON_WRITE)
    job.write(1)
    job.backend.timestamp_ms += 6_000
    job.write(2)
    assert job.read() == "[(1, 10), (2, 20)]"
    assert job.read(after_s=4) == "[(2, 20)]"


def test_an_append_to_a_list_with_a_ttl_does_not_read() -> None:
    job = Job("list", ON_READ)
    job.write(1)
    job.write(2)
    assert fetches(job.harness) == []


def test_another_ttl_applies_to_stored_values_at_once() -> None:
    job = Job("value", ON_WRITE)
    job.write(7)
    job.restart(StateTtlConfig.new_builder(Time.seconds(30)).build())
    assert job.read(after_s=29) == "7"
    job.restart(ON_WRITE)
    assert job.read() == "None"


def test_values_written_without_a_ttl_expire_from_their_next_update_on() -> None:
    job = Job("value", None)
    job.write(7)
    job.restart(ON_WRITE)
    assert job.read(after_s=1_000) == "7"
    job.restart(ON_READ)
    assert job.read(after_s=1_000) == "7"
    assert job.read(after_s=10) == "None"


def test_without_its_ttl_a_state_keeps_what_it_has() -> None:
    for kind, seen in (("value", "7"), ("list", "[7]"), ("map", "[(7, 70)]")):
        job = Job(kind, ON_WRITE)
        job.write(7)
        job.restart(None)
        assert job.read(after_s=1_000) == seen


def test_a_disabled_ttl_is_none() -> None:
    disabled = (
        StateTtlConfig.new_builder(Time.seconds(1))
        .set_update_type(StateTtlConfig.UpdateType.Disabled)
        .build()
    )
    assert not disabled.is_enabled()
    job = Job("value", disabled)
    job.write(7)
    assert job.read(after_s=1_000) == "7"


def test_what_is_no_config_is_refused() -> None:
    descriptor = ValueStateDescriptor("state", Types.LONG())
    with pytest.raises(InvalidRequestError, match="StateTtlConfig"):
        descriptor.enable_time_to_live(Time.seconds(1))  # type: ignore[arg-type]
    with pytest.raises(InvalidRequestError, match="1 to 4611686018427387903 ms"):
        StateTtlConfig.new_builder(Time.seconds(0))
    with pytest.raises(InvalidRequestError, match="cleanup_size"):
        StateTtlConfig.new_builder(Time.seconds(1)).cleanup_incrementally(0, False)
