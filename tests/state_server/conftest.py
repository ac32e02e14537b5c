"""Clusters and owners in the test's process, and gates of their files."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from tests.state_server.attempt import KEYS, MAX_PARALLELISM, PARALLELISM
from tests.state_server.cluster import Clock, Cluster, running_cluster
from tests.state_server.gated_files import GATE, Gate
from tests.state_server.owner import ManualClock, Owner
from tests.state_server.queries import scans

from queryable_state.wire.keys.key_groups import subtask_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with running_cluster(tmp_path) as running:
        yield running


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def key_of() -> Callable[[int, int], str]:
    """The `number`-th key that belongs to a subtask."""

    def find(subtask: int, number: int = 0) -> str:
        found: Iterator[str] = (
            f"k{i}"
            for i in range(10_000)
            if subtask_of(KEYS.of(f"k{i}"), PARALLELISM, MAX_PARALLELISM) == subtask
        )
        return next(itertools.islice(found, number, None))

    return find


@pytest.fixture
def gate() -> Iterator[Gate]:
    """Holds writes to `gated://` paths up when it is told to."""
    with GATE.fresh():
        yield GATE


@pytest.fixture(params=["heap", "rocksdb"])
async def owner(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Owner]:
    """The parts behind an engine, on either backend, without sockets."""
    running = Owner(request.param, tmp_path / "owned", ManualClock())
    yield running
    await running.aclose()


@pytest.fixture
def filled(owner: Owner) -> Owner:
    """An owner of all keys, with one batch of `scans.ALL`."""
    owner.own_all()
    owner.seal(0, scans.ALL)
    owner.commit(0, watermark_ms=8)
    return owner
