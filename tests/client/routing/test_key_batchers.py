"""Key batchers of a client: shared by calls with equal options, and bounded in number."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING

import pytest
from tests.waiting import eventually

from queryable_state.client import (
    Consistency,
    DescriptorMismatchError,
    InvalidRequestError,
    KeyTypeError,
)
from queryable_state.client._client_base import MAX_OPTION_BATCHERS
from queryable_state.client._queries.handle import StateHandle
from queryable_state.client._queries.lookups import KeyBatcher, QueryOptions, never_alone
from queryable_state.wire.keys.time_window import TimeWindow

if TYPE_CHECKING:
    from queryable_state.client import QueryableStateClient
    from queryable_state.server.testing.cluster import InProcessJob


def _batchers() -> list[KeyBatcher]:
    gc.collect()
    return [known for known in gc.get_referrers(KeyBatcher) if type(known) is KeyBatcher]


class _Descriptor:
    """What a job registered a state with; cannot be hashed if `__hash__` is None."""

    def __init__(self, value_type: str) -> None:
        self.kind = "value"
        self.value_type = value_type


class _UnhashableDescriptor(_Descriptor):
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True


async def test_calls_with_different_options_leave_a_bounded_number_of_batchers(
    client: QueryableStateClient, job: InProcessJob
) -> None:
    """A time-out that is what is left of a request's, and windows of all times."""
    for number in range(MAX_OPTION_BATCHERS):
        state = await client.get_kv_state("sensors", "last", "sensor_1", timeout_s=9 + number / 64)
        assert state.value() == 1.0
        window = TimeWindow(number * 1000, number * 1000 + 1000)
        with pytest.raises(InvalidRequestError, match="no windows"):
            await client.get_kv_state("sensors", "last", "sensor_1", window=window)
    assert len(_batchers()) < MAX_OPTION_BATCHERS + 5


async def test_calls_with_the_same_options_share_a_batcher(
    client: QueryableStateClient, job: InProcessJob
) -> None:
    descriptor, others = _Descriptor("double"), _batchers()
    for _ in range(3):
        await client.get_kv_state("sensors", "last", "sensor_1", timeout_s=7, key_type="string")
        await client.get_kv_state("sensors", "last", "sensor_1", key_type="string", timeout_s=7.0)
        await client.get_kv_state("sensors", "last", "sensor_1", descriptor=descriptor)
    assert len(_batchers()) == len(others) + 2


async def test_calls_with_other_options_do_not_mix(
    client: QueryableStateClient, job: InProcessJob
) -> None:
    ask, others = client.get_kv_state, _batchers()
    first, second, there, *_ = await asyncio.gather(
        ask("sensors", "last", "sensor_1", timeout_s=1),
        ask("sensors", "last", "sensor_1", timeout_s=1, consistency=Consistency.UNCOMMITTED),
        client.contains("sensors", "last", "nobody", timeout_s=1),
        ask("sensors", "seen", "sensor_1", timeout_s=1),
    )
    assert first.value() == second.value() == 1.0
    assert not there
    ours = [batcher for batcher in _batchers() if batcher not in others]
    assert {batcher.options.consistency for batcher in ours} == {
        Consistency.COMMITTED,
        Consistency.UNCOMMITTED,
    }
    assert len(ours) == 4
    with pytest.raises(InvalidRequestError, match="timeout_s"):
        await ask("sensors", "last", "sensor_1", timeout_s=True)
    with pytest.raises(KeyTypeError):
        await ask("sensors", "last", "sensor_1", key_type="bigint")


async def test_a_descriptor_that_cannot_be_hashed_is_checked_in_every_call(
    client: QueryableStateClient, job: InProcessJob
) -> None:
    ask = client.get_kv_state
    fitting, other = _UnhashableDescriptor("double"), _UnhashableDescriptor("string")
    assert (await ask("sensors", "last", "sensor_1", descriptor=fitting)).value() == 1.0
    with pytest.raises(DescriptorMismatchError):
        await ask("sensors", "last", "sensor_1", descriptor=other)


async def test_a_held_key_does_not_wait_for_an_answer_that_does_not_come() -> None:
    """Two callers' keys join in one batch; a batch of a server that hangs holds nobody."""
    submitted: list[str] = []

    def submit(_: KeyBatcher, keys: list[str], *__: object) -> None:
        submitted.extend(keys)

    handle = StateHandle("sensors", "last", unpickle=False)
    batcher = KeyBatcher(
        asyncio.get_running_loop(), submit, never_alone, handle, QueryOptions(timeout_s=5)
    )
    batcher.hold()
    batcher.look_up("sensor_1")
    await asyncio.sleep(0)
    assert submitted == []
    await eventually(lambda: submitted == ["sensor_1"])
