"""What is registered of one state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queryable_state.client import (
    InvalidRequestError,
    QueryableStateError,
    Types,
    UnknownStateError,
)
from queryable_state.client.blocking import QueryableStateClient as BlockingClient

if TYPE_CHECKING:
    from queryable_state.client import QueryableStateClient
    from queryable_state.server.testing.cluster import InProcessJob


async def test_a_state_is_described_by_its_kind_and_types(
    client: QueryableStateClient, job: InProcessJob
) -> None:
    for name in (None, "sensors", job.job_id):
        counts = await client.describe_state(name, "counts")
        assert (counts.job_id, counts.job_name, counts.kind) == (job.job_id, "sensors", "MAP")
        assert (counts.key_type, counts.value_type) == (Types.STRING(), Types.LONG())
        assert counts.map_key_type == Types.STRING()
    assert await client.describe_state(None, "last") in await client.list_states()


async def test_what_is_not_there_is_refused_with_what_is(client: QueryableStateClient) -> None:
    with pytest.raises(UnknownStateError) as raised:
        await client.describe_state("sensors", "lost")
    assert "last" in raised.value.candidates
    with pytest.raises(InvalidRequestError):
        await client.describe_state("sensors", "")
    with pytest.raises(InvalidRequestError):
        await client.describe_state("sensors", "last", timeout_s=0)


def test_an_unreachable_server_is_reported_in_time() -> None:
    with (
        BlockingClient("127.0.0.1", 1, timeout_s=0.2) as client,
        pytest.raises(QueryableStateError, match=r"127\.0\.0\.1:1"),
    ):
        client.describe_state(None, "last")
