"""What a server answers about values with a TTL, on stores of both backends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.state_server.owner import decoded, key_of

from queryable_state.v1 import query_pb2
from queryable_state.wire.values.lifetime import expires_at_ms, remaining_ms

if TYPE_CHECKING:
    from tests.state_server.owner import Owner


def test_an_expired_value_is_missing(owner: Owner) -> None:
    owner.registration.ttl.ttl_ms = 2000
    owner.own(0)
    key = key_of(0)
    owner.seal(0, {key: 1}, timestamp_ms=owner.clock.now_ms)
    owner.commit(0)
    assert decoded(owner.ask(key)) == [1]
    assert owner.ask(key, read=query_pb2.PREFIX).values
    owner.clock.advance(2)
    assert list(owner.ask(key).missing) == [0]
    assert list(owner.ask(key, read=query_pb2.PREFIX).missing) == [0]


def test_an_expired_value_is_answered_where_the_state_says_so(owner: Owner) -> None:
    owner.registration.ttl.ttl_ms = 2000
    owner.registration.ttl.return_expired = True
    owner.own(0)
    owner.seal(0, {key_of(0): 1}, timestamp_ms=owner.clock.now_ms)
    owner.commit(0)
    owner.clock.advance(3)
    assert decoded(owner.ask(key_of(0))) == [1]
    # One more TTL after its expiry a value is gone, whether or not clean-up has removed it.
    owner.clock.advance(1)
    assert list(owner.ask(key_of(0)).missing) == [0]


def test_an_answer_tells_by_which_clock_values_expire(owner: Owner) -> None:
    owner.registration.ttl.ttl_ms = 2000
    owner.own(0)
    owner.seal(0, {key_of(0): 1}, timestamp_ms=owner.clock.now_ms - 500)
    owner.commit(0)
    info = owner.ask(key_of(0)).info
    assert (info.ttl_ms, info.read_time_ms) == (2000, owner.clock.now_ms)


def test_values_with_a_ttl_each_are_answered_with_the_time_of_their_expiry(owner: Owner) -> None:
    """The store says what has expired; the remaining life counts from the server's clock."""
    owner.registration.ttl.per_value = True
    owner.own(0)
    expiry_ms = owner.clock.now_ms + 3000
    owner.seal(0, {key_of(0): 1}, timestamp_ms=expiry_ms)
    owner.commit(0)
    for left_ms in (3000, 1000, 0):
        answer = owner.ask(key_of(0))
        assert (answer.info.ttl_ms, answer.info.ttl_per_value) == (0, True)
        assert expires_at_ms(answer.values, answer.info) == expiry_ms
        assert remaining_ms(answer.values, answer.info) == left_ms
        owner.clock.advance(2)


def test_timestamps_of_a_state_without_a_ttl_mean_nothing(owner: Owner) -> None:
    """The job was restarted without the TTL that it had."""
    owner.own(0)
    owner.seal(0, {key_of(0): 1}, timestamp_ms=1)
    owner.commit(0)
    answer = owner.ask(key_of(0))
    assert decoded(answer) == [1]
    assert (answer.info.ttl_ms, answer.info.read_time_ms) == (0, 0)
