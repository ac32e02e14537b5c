"""Attempts of one batch: which of them counts, and which are fenced."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queryable_state.wire.errors import JobError, Reason, SupersededError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.state_server.cluster import Cluster


async def test_an_attempt_that_only_begins_destroys_nothing(
    cluster: Cluster, key_of: Callable[..., str]
) -> None:
    """As `foreachBatch` does that writes and then looks at one row."""
    server, job = await cluster.server(), cluster.job()
    await (await job.begin(server, 0)).prepare({key_of(0): "x"})
    await job.begin(server, 0)
    await job.commit(server, 0)
    assert job.read(server, key_of(0)) == ["x"]


async def test_a_retried_batch_counts_once(cluster: Cluster, key_of: Callable[..., str]) -> None:
    server, job = await cluster.server(), cluster.job()
    key, other = key_of(0), key_of(0, 1)
    await (await job.begin(server, 0)).prepare({key: "first", other: "gone"})
    await (await job.begin(server, 0)).prepare({key: "second"})
    await job.commit(server, 0)
    assert job.read(server, key) == ["second"]
    assert list(job.ask(server, other).missing) == [0]


async def test_a_prepare_sent_twice_is_acknowledged_twice(
    cluster: Cluster, key_of: Callable[..., str]
) -> None:
    server, job = await cluster.server(), cluster.job()
    task = await job.begin(server, 0)
    first = await task.prepare({key_of(0): "x"})
    assert await task.prepare({key_of(0): "x"}) == first
    assert first.staged_bytes > 0


async def test_the_highest_token_wins_in_whatever_order_they_seal(
    cluster: Cluster, key_of: Callable[..., str]
) -> None:
    server, job = await cluster.server(), cluster.job()
    low = await job.begin(server, 0, attempt=1)
    high = await job.begin(server, 0, attempt=2)
    await high.prepare({key_of(0): "high"})
    with pytest.raises(SupersededError) as refused:
        await low.prepare({key_of(0): "low"})
    assert refused.value.reason == Reason.STALE_TOKEN
    await job.commit(server, 0)
    assert job.read(server, key_of(0)) == ["high"]


async def test_a_task_of_an_older_run_is_fenced(
    cluster: Cluster, key_of: Callable[..., str]
) -> None:
    server, job = await cluster.server(), cluster.job()
    zombie = await job.begin(server, 0)
    await (await job.restart().begin(server, 0)).prepare({key_of(0): "new"})
    for late in (zombie.prepare({key_of(0): "old"}), zombie.fetch(key_of(0)), zombie.begin()):
        with pytest.raises(SupersededError) as refused:
            await late
        assert refused.value.reason == Reason.FENCED
    await job.commit(server, 0)
    assert job.read(server, key_of(0)) == ["new"]


async def test_a_task_of_a_committed_batch_is_told_so(
    cluster: Cluster, key_of: Callable[..., str]
) -> None:
    server, job = await cluster.server(), cluster.job()
    late = await job.begin(server, 0)
    await job.run(server, 0, {key_of(0): "x"})
    for call in (late.prepare({key_of(0): "y"}), late.fetch(key_of(0)), late.begin()):
        with pytest.raises(SupersededError) as refused:
            await call
        assert refused.value.reason == Reason.ALREADY_COMMITTED
    assert job.read(server, key_of(0)) == ["x"]


async def test_another_fingerprint_in_a_re_run_is_logged_as_an_error(
    cluster: Cluster, key_of: Callable[..., str], caplog: pytest.LogCaptureFixture
) -> None:
    server, job = await cluster.server(), cluster.job()
    await (await job.begin(server, 0)).prepare({key_of(0): "x"}, fingerprint=1)
    await (await job.begin(server, 0)).prepare({key_of(0): "x"}, fingerprint=1)
    assert "NON_DETERMINISTIC_INPUT" not in caplog.text
    await (await job.begin(server, 0)).prepare({key_of(0): "y"}, fingerprint=2)
    assert "NON_DETERMINISTIC_INPUT" in caplog.text
    await job.commit(server, 0)
    assert job.read(server, key_of(0)) == ["y"]


async def test_strict_servers_refuse_another_fingerprint(
    cluster: Cluster, key_of: Callable[..., str]
) -> None:
    server, job = await cluster.server(strict_determinism=True), cluster.job()
    await (await job.begin(server, 0)).prepare({key_of(0): "x"}, fingerprint=1)
    with pytest.raises(JobError, match="deterministic") as refused:
        await (await job.begin(server, 0)).prepare({key_of(0): "y"}, fingerprint=2)
    assert refused.value.reason == Reason.NON_DETERMINISTIC_INPUT
    await job.commit(server, 0)
    assert job.read(server, key_of(0)) == ["x"]
