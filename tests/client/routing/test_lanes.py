"""What a client keeps of queries that are over: nothing that grows."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

from queryable_state.client import UnknownKeyOrNamespaceError
from queryable_state.client._routing.key_batcher import KeyBatcher
from queryable_state.wire.keys.store_keys import window_namespace

if TYPE_CHECKING:
    from queryable_state.client import QueryableStateClient
    from queryable_state.server.testing.cluster import InProcessJob


async def test_queries_unlike_each_other_leave_nothing_behind(
    client: QueryableStateClient, job: InProcessJob
) -> None:
    """A time out that is what is left of a request's, a namespace a window."""
    for number in range(50):
        state = await client.get_kv_state("sensors", "last", "sensor_1", timeout_s=9 + number / 64)
        assert state.value() == 1.0
        window = window_namespace(number * 1000, number * 1000 + 1000)
        with pytest.raises(UnknownKeyOrNamespaceError):
            await client.get_kv_state("sensors", "last", "sensor_1", namespace=window)
    gc.collect()
    assert sum(isinstance(known, KeyBatcher) for known in gc.get_objects()) < 5
