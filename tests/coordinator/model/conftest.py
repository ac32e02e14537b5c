"""The cluster of one test."""

from __future__ import annotations

import pytest
from tests.coordinator.model.cluster import Cluster


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()
