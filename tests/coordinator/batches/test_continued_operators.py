"""Operators with state of earlier batches, told from those that a program has added."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.coordinator.drivers import QUERY, driver, subtask_of
from tests.coordinator.roots.durable import run

from queryable_state.server.coordinator import JobConfig
from queryable_state.wire.errors import UnknownJobError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.coordinator.drivers import Driver

ADDED = subtask_of(0, uid="added", p=1)
LONG_S = 20.0


def continued(job: Driver, batch: int) -> set[str]:
    job.engine.plan(QUERY, batch)
    return set(job.coordinator.continued(QUERY, batch, "", LONG_S))


def test_an_operator_continues_once_a_batch_in_which_it_ran_is_committed(tmp_path: Path) -> None:
    with driver(tmp_path) as job:
        assert continued(job, 0) == set()
        run(job, 0)
        assert continued(job, 1) == {"op"}
        epoch = job.begin(1)
        job.open(ADDED, 1)
        job.seal(ADDED, 1, attempt=20, epoch=epoch)
        assert continued(job, 1) == {"op"}, "the batch may run again"
        run(job, 1)
        assert continued(job, 2) == {"op", "added"}


@pytest.mark.parametrize("committed", [False, True])
def test_the_next_driver_decides_alike(tmp_path: Path, *, committed: bool) -> None:
    """What was sealed of a batch counts only if Spark has committed the batch."""
    with driver(tmp_path) as job:
        run(job, 0)
        epoch = job.begin(1)
        for subtask in (subtask_of(0), subtask_of(1), ADDED):
            job.open(subtask, 1)
            job.file(subtask, 1, attempt=20 + subtask.index, epoch=epoch)
        if committed:
            job.engine.commit(QUERY, 1)
    with driver(tmp_path) as job:
        if committed:
            for batch in (0, 1):
                job.engine.plan(QUERY, batch)
                job.engine.commit(QUERY, batch)
            assert continued(job, 2) == {"op", "added"}
        else:
            assert continued(job, 1) == {"op"}


def test_without_a_root_an_operator_continues_in_the_servers_that_opened_it(
    tmp_path: Path,
) -> None:
    with driver(tmp_path, JobConfig(changelog=False)) as job:
        run(job, 0)
        assert continued(job, 1) == {"op"}
        job.open(ADDED, 1)
        assert continued(job, 1) == {"op"}
        run(job, 1)
        assert continued(job, 2) == {"op", "added"}


def test_a_query_that_is_not_known_is_refused(tmp_path: Path) -> None:
    with driver(tmp_path) as job, pytest.raises(UnknownJobError):
        job.coordinator.continued(b"some other query", 1, "", 0.1)
