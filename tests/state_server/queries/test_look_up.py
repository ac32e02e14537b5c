"""Look-ups of one key, which the reader answers on a straight line or leaves to `answer`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.state_server.owner import KEYS, MAX_PARALLELISM, QUERY_ID, STATE_ID, VALUES, key_of

from queryable_state.internal.v1.checkpoint_pb2 import Timeline
from queryable_state.server.query.frames.answer_frames import frame_of, info_field, value_frame
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE
from queryable_state.wire.schema.types import Types
from queryable_state.wire.values.value_codec import ValueCodec

if TYPE_CHECKING:
    from tests.state_server.owner import Owner


def answer_of(frame: bytes | None) -> query_pb2.Answer:
    assert frame is not None
    return query_pb2.ServerFrame.FromString(frame).answer


def looked_up(owner: Owner, key: str) -> int | None:
    """The value of a key; None if it is absent."""
    answer = answer_of(owner.engine.look_up(owner.query(key)))
    assert (answer.id, answer.part, answer.last) == (5, 0, True)
    assert list(answer.missing) == ([] if answer.values else [0])
    return VALUES.decode(answer.values[0]) if answer.values else None


@pytest.fixture
def whole(owner: Owner) -> Owner:
    """An owner of all subtasks, with the keys k0 to k9 committed in batch 0."""
    owner.own_all()
    owner.seal(0, {f"k{number}": number for number in range(10)})
    owner.commit(0, watermark_ms=99)
    return owner


def test_a_look_up_answers_as_any_query_read_from_the_store_and_from_the_cache(
    whole: Owner,
) -> None:
    for _ in range(2):
        for key in ("k3", "absent"):
            query = whole.query(key)
            found = whole.engine.look_up(query)
            answer = whole.engine.answer(query)
            assert answer is not None
            assert found == frame_of(answer)
    assert answer_of(whole.engine.look_up(whole.query("k3"))).info.watermark_ms == 99


def test_a_look_up_reads_committed_batches_only(whole: Owner) -> None:
    assert looked_up(whole, "k1") == 1
    assert looked_up(whole, "new") is None
    whole.seal(1, {"k1": 11, "new": 5})
    assert (looked_up(whole, "k1"), looked_up(whole, "new")) == (1, None)
    whole.commit(1)
    assert (looked_up(whole, "k1"), looked_up(whole, "new")) == (11, 5)
    assert answer_of(whole.engine.look_up(whole.query("k1"))).info.version == 1


def test_a_look_up_has_the_newest_info_of_its_job(whole: Owner) -> None:
    """Also if a checkpoint or a timeline has set it, and no commit."""
    job = whole.table.job_or_new(QUERY_ID)
    job.use(Timeline(id=9))
    assert answer_of(whole.engine.look_up(whole.query("k1"))).info == job.info
    job.info = query_pb2.ReadInfo(version=4, role=query_pb2.CHECKPOINT, checkpoint="file:/chk-4")
    assert answer_of(whole.engine.look_up(whole.query("k1"))).info == job.info
    assert job.info.checkpoint


@pytest.mark.parametrize(
    "options",
    [
        {"consistency": query_pb2.UNCOMMITTED},
        {"min_version": 0, "max_staleness_ms": 1000},
        {"min_version": 1},
        {"at_version": 0},
        {"explain": True},
        {"namespace": b"\x01\x02"},
        {"read": query_pb2.EXISTS},
        {"read": query_pb2.PREFIX},
    ],
    ids=str,
)
def test_queries_with_options_are_left_to_answer(whole: Owner, options: dict[str, Any]) -> None:
    assert whole.engine.look_up(whole.query("k1", **options)) is None


def test_several_keys_are_left_to_answer(whole: Owner) -> None:
    assert whole.engine.look_up(whole.query("k1", "k2")) is None


def test_without_its_lease_a_server_answers_no_look_up_even_from_its_cache(whole: Owner) -> None:
    assert looked_up(whole, "k1") == 1
    whole.clock.advance(11)
    assert whole.engine.look_up(whole.query("k1")) is None
    answer = whole.engine.answer(whole.query("k1"))
    assert answer is not None
    assert answer.HasField("error")


@pytest.mark.parametrize("key", [b"", b"\x00", MAX_PARALLELISM.to_bytes(2) + b"x", b"\xff\xff"])
def test_keys_without_a_key_group_are_left_to_answer_which_refuses_them(
    whole: Owner, key: bytes
) -> None:
    query = query_pb2.Query(id=5, state_id=STATE_ID, keys=[key])
    for _ in range(2):
        assert whole.engine.look_up(query) is None
    answer = whole.engine.answer(query)
    assert answer is not None
    assert "key group" in answer.error.message


def test_keys_and_states_of_other_servers_are_left_to_answer(owner: Owner) -> None:
    owner.own(0)
    assert owner.engine.look_up(owner.query(key_of(1))) is None
    other = query_pb2.Query(id=5, state_id=STATE_ID + 1, keys=[KEYS.wire_key("k1")])
    assert owner.engine.look_up(other) is None


def test_incomplete_state_is_left_to_answer(owner: Owner) -> None:
    owner.own(0, complete_since=3)
    assert owner.engine.look_up(owner.query(key_of(0))) is None
    assert owner.engine.look_up(owner.query(key_of(0), allow_incomplete=True)) is None


def test_values_that_expire_are_left_to_answer(owner: Owner) -> None:
    owner.registration.ttl.CopyFrom(registration_pb2.TimeToLive(ttl_ms=1000))
    owner.own_all()
    owner.seal(0, {"k1": 1}, timestamp_ms=owner.clock.now_ms)
    owner.commit(0)
    assert owner.engine.look_up(owner.query("k1")) is None


def test_a_value_that_is_too_large_for_an_answer_is_left_to_answer(owner: Owner) -> None:
    owner.own_all()
    large = ValueCodec.of(Types.STRING()).encode("x" * 250)
    owner.seal_records(0, [("k1", VOID_NAMESPACE, b"", large)])
    owner.commit(0)
    assert owner.engine.look_up(owner.query("k1")) is None


def test_a_failing_store_is_refused_by_answer_and_counted_once(whole: Owner) -> None:
    for subtask in list(whole.table.subtasks()):
        subtask.store.close()
    query = whole.query("k1")
    assert whole.engine.look_up(query) is None
    answer = whole.engine.answer(query)
    assert answer is not None
    route = whole.table.route(STATE_ID)
    assert route is not None
    assert sum(route.reads.failed.values()) == 1
    assert route.reads.cache_misses <= 1


def test_look_ups_count_misses_once_and_every_key_asked(whole: Owner) -> None:
    route = whole.table.route(STATE_ID)
    assert route is not None
    for _ in range(3):
        looked_up(whole, "k1")
        looked_up(whole, "absent")
    assert route.reads.cache_misses == 2
    hot = whole.engine.hot_keys(STATE_ID, 10)
    assert {key.key: key.count for key in hot.keys} == {
        KEYS.wire_key("k1"): 3,
        KEYS.wire_key("absent"): 3,
    }


@pytest.mark.parametrize("query_id", [0, 1, 127, 128, 1 << 40, (1 << 64) - 1])
@pytest.mark.parametrize("size", [0, 1, 99, 127, 128, 20_000])
def test_the_frame_of_a_value_is_the_frame_of_its_answer(query_id: int, size: int) -> None:
    info = query_pb2.ReadInfo(version=7, commit_time_ms=1_700_000_000_000, server_id="server")
    value = b"v" * size
    answer = query_pb2.Answer(
        id=query_id,
        last=True,
        values=[value] if value else [],
        missing=[] if value else [0],
        info=info,
    )
    assert value_frame(query_id, value, info_field(info)) == frame_of(answer)
