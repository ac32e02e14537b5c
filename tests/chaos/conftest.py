"""Rounds and what they stand on; the rounds themselves are marked `chaos`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.chaos.clusters import LocalCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path.resolve() / "cluster") as cluster:
        yield cluster
