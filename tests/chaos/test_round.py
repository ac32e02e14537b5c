"""One short round. `make chaos ROUNDS=n SEED=s` runs as many as asked."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from tests.chaos.plan import RoundPlan
from tests.chaos.report import lines_of
from tests.chaos.round import Round

if TYPE_CHECKING:
    from pathlib import Path

    from tests.chaos.clusters import LocalCluster

SEED = 1


@pytest.mark.slow
@pytest.mark.chaos
@pytest.mark.timeout(900)
def test_nothing_is_lost_or_counted_twice_when_a_server_and_an_executor_are_killed(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    plan = RoundPlan.of(SEED, only=("kill-server", "kill-executor"))
    plan = dataclasses.replace(plan, standalone=False, file_sink=False)
    result = Round(plan, cluster.folder.parent, cluster).run()
    assert result.passed, "\n".join([f"seed {SEED}", *lines_of(result)])
    assert result.answers > 0
